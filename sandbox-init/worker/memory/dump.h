/*
 * The memory of this process as a stream of bytes. load.h loads it into another worker of the same
 * template process, which then continues where this one was (docs/branches.md).
 *
 *     struct dump_header, its mappings, then for each run of pages struct dump_run, `skip` bytes and the pages, and a
 *     struct dump_run of 0 pages
 *
 * It is read from a sealed memfd. Where a dump begins at a multiple of the kernel's page, so do the pages of runs that may
 * be mapped instead of read.
 */
#pragma once

#include <stdint.h>

#include "sandbox-init/worker/memory/mappings.h"

/*
 * The point at which a process continues: its callee-saved registers, in the way of setjmp(), but without
 * libc, and usable in another process that has the same memory.
 */
struct context {
        uint64_t words[24];
};

/* Returns 0, and 1 when it is resumed. The function that calls it must not have returned by then. */
__attribute__((returns_twice)) int cloister_context_save(struct context *to);
_Noreturn void cloister_context_resume(const struct context *from);

/* Calls fn, which does not return, on another stack; top: its end. */
_Noreturn void cloister_context_enter(void *top, void (*fn)(void *data), void *data);

#define DUMP_MAGIC UINT64_C(0x31706d7564636c63)

struct dump_header {
        uint64_t magic;
        uint8_t template_id[16];
        uint64_t n_mappings, brk;
        uint64_t thread_pointer, channel;
        uint64_t context; /* address of the struct context in the dump */
        uint64_t number;  /* address of the int64_t that takes the loader's argument */
        uint64_t refusal; /* an errno: there is no dump */
};

struct dump_run {
        uint64_t start, pages;
        uint32_t skip;
        uint32_t may_be_mapped;
};

/*
 * Writes all of it. The caller fills what is not about mappings, and is alone: no other thread runs.
 * Makes pages readable that are not, so that the process must end after it.
 * Returns 0 or negative errno: -E2BIG (too many mappings), -EBUSY (it shares memory with others).
 */
long dump_write(long fd, struct dump_header *header);
/* Writes the reason why there is no dump, if header->n_mappings is 0 after that. */
void dump_refuse(long fd, long error);
