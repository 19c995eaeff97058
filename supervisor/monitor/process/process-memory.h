/*
 * The memory of all processes that a procfs shows, for sessions that no control group counts.
 *
 * Counted are resident and swapped pages and page tables, of processes only: not files in tmpfs that
 * are not mapped, nor buffers of pipes and sockets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_memory {
        uint64_t bytes;
        uint64_t least; /* without what may have been counted twice */
};

enum { PROCESS_GROWTH_MAX = 160 };

/*
 * The memory that processes have taken since they were first seen. Only a page fault of its own gives a process more
 * private pages, and only its children can share such a page, which is theirs from the beginning: what
 * each has more than the least that was seen of it is used, once.
 */
struct process_growth {
        uint64_t bytes; /* of all */
        size_t n;
        struct process_seen {
                long pid;
                uint64_t bytes, least; /* private pages: now, and the least that was seen */
                uint64_t all;          /* with shared pages and page tables */
        } seen[PROCESS_GROWTH_MAX];
};

/* `bytes`: at least what is used; a page that several processes share counts for each. `least`: the
 * page tables of the process that has most of them, which are certain: all others may be the same
 * memory (vfork(), swapped pages after fork()). Takes less than a millisecond: `bytes` is UINT64_MAX where
 * there are too many processes for that. growth: all zero at first; this call updates it. NULL:
 * none. proc: a directory descriptor. Zeros if it cannot be read. */
struct process_memory process_memory_bound(int proc, struct process_growth *growth);

/* The bytes of a growth without those of processes that may have the memory of their parent (vfork()).
 * Takes a millisecond or two. */
uint64_t process_memory_grown(int proc, const struct process_growth *growth);

/* A page that n processes share counts 1/n for each. Takes milliseconds: for a child. A vfork()ed
 * process, which has its parent's memory until it execs, does not count. Ends early when `least` is above
 * `most`. */
struct process_memory process_memory_exact(int proc, uint64_t most);

/*
 * The memory of some processes, each page once: counts() selects them. Pages that they share with others count whole,
 * what others have alone does not. It is too much rather than too little, also while processes run. Takes
 * milliseconds: for a child. UINT64_MAX: one of them cannot be read, or there is none.
 */
uint64_t process_memory_held(int proc, bool (*counts)(const void *data, long pid),
                             const void *data);

/*
 * A number for the processes that a procfs shows: as long as it is the same, none of them but init has
 * run, and none was added. init looks at them while they rest, and takes no memory. 0: one of them runs
 * now, or they have too many threads for a look of less than a millisecond.
 */
uint64_t process_rest(int proc);

/* The processes that a procfs shows, one after the other. */
enum { PROCESS_CURSOR_BYTES = 64 }; /* the longest name is thread-self: an entry or two at a time */

struct process_cursor {
        int fd;
        size_t at, n;
        char buffer[PROCESS_CURSOR_BYTES];
};

/* path: "." for processes, "PID/task" for threads. If it cannot be read, there are none. */
struct process_cursor process_cursor_open(int proc, const char *path);
void process_cursor_close(struct process_cursor *cursor);
/* The next one in the order of pids; 0: there is none. */
long process_cursor_next(struct process_cursor *cursor);
