/*
 * Where libc keeps the id of its thread: the word of its struct that has the worker's id before a fork and the fork's
 * id after it. glibc and musl have such a word; nothing else is known of their structs.
 */
#pragma once

void thread_id_find(void); /* before the fork */
/* In the fork: keeps those that libc has changed. */
void thread_id_confirm(void);
/* In the branch, whose id is another one. */
void thread_id_renew(void);
