/*
 * Where libc keeps the id of its thread: the word of its struct that has the worker's id before a fork and the fork's
 * id after it. glibc and musl have such a word; nothing else is known of their structs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Before the fork. */
void thread_id_find(void);
/* In the fork: keeps the words that have changed. */
void thread_id_confirm(void);
/* In the branch, whose id is another one. */
void thread_id_renew(void);

/* After thread_id_find(): where the words are, relative to the thread pointer. Returns how many there are. */
unsigned thread_id_offsets(ptrdiff_t *offsets, unsigned max);
