/*
 * The process that has made a call which the filter sends to init: its files and its memory. All that it has may change
 * meanwhile, and it may end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Results of a call beside 0 and negative errno. */
enum {
        CALL_WAITS = 1, /* not answered yet */
        CALL_GOES_ON,   /* the caller itself makes the call */
        CALL_BEGUN,     /* a child of init makes it: figures_end() has the result */
};

struct caller {
        pid_t process; /* 0: none */
        int pidfd;
};

/* The process of a thread; 0: it has ended. */
pid_t caller_process_of(pid_t thread);

struct caller caller_new(pid_t process);
void caller_done(struct caller *caller);

/* Whether it has not ended. */
bool caller_is_current(const struct caller *caller);

/* Returns a descriptor of its open file, -EBADF, or -ENOLCK if it may not be taken. */
int caller_take_file(const struct caller *caller, int fd, struct stat *st);

/* Returns 0, -EFAULT, or -ENOLCK if its memory may not be read. */
int caller_copy_memory(const struct caller *caller, uint64_t at, void *data, size_t n, bool writes);
