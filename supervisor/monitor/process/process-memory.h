/*
 * The memory of all processes that a procfs shows, for sessions that no control group counts.
 *
 * Counted are resident and swapped pages and page tables, of processes only: not files in tmpfs that
 * are not mapped, nor buffers of pipes and sockets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct process_memory {
        uint64_t bytes;
        uint64_t least; /* without what may have been counted twice */
};

/* `bytes`: at least what is used; a page that several processes share counts for each. `least`: the
 * page tables of the process that has most of them, which are certain: all others may be the same
 * memory (vfork(), swapped pages after fork()). Takes less than a millisecond: `bytes` is UINT64_MAX where
 * there are too many processes for that. proc: a directory descriptor. Zeros if it cannot be read. */
struct process_memory process_memory_bound(int proc);

/* A page that n processes share counts 1/n for each. Takes milliseconds: for a child. A vfork()ed
 * process, which has its parent's memory until it execs, does not count. Ends early when `least` is above
 * `most`. */
struct process_memory process_memory_exact(int proc, uint64_t most);
