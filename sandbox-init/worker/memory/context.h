/*
 * The point at which a process continues: its callee-saved registers, in the way of setjmp(), but without
 * libc, and usable in another process that has the same memory.
 */
#pragma once

#include <stdint.h>

struct context {
        uint64_t words[24];
};

/* Returns 0, and 1 when it is resumed. The function that calls it must not have returned by then. */
__attribute__((returns_twice)) int cloister_context_save(struct context *to);
_Noreturn void cloister_context_resume(const struct context *from);

/* Calls fn, which does not return, on another stack; top: its end. */
_Noreturn void cloister_context_enter(void *top, void (*fn)(void *data), void *data);
