/*
 * Where libc keeps the id of its thread: the word of its struct that has the worker's id before a fork and the fork's
 * id after it. glibc and musl have such a word; nothing else is known of their structs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before the fork. */
void thread_id_find(void);
/* In the fork: keeps the words that have changed. */
void thread_id_confirm(void);
/* In the branch, whose id is another one. */
void thread_id_renew(void);

/* After thread_id_find(): keeps the words that have the id of another thread in its struct. Returns whether there is one. */
bool thread_id_keep(uintptr_t thread_pointer, int32_t id);
/* Where the word is, relative to the thread pointer, if one is left; else 0. */
ptrdiff_t thread_id_offset(void);
