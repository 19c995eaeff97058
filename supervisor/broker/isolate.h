/* The broker drops all privileges that it does not need, before it reads untrusted input. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct isolation {
        int filter_fd;          /* sealed memfd of struct sock_filter; is closed */
        const char *state_path; /* directory of the cache, or NULL */
        bool has_http;          /* servers are reached by HTTP */
        bool has_uid;
        uid_t uid;    /* uid and gid to become, in our user namespace */
        int keep[22]; /* descriptors that stay open beside 0, 1, 2 and MONITOR_FD; -1: none */
};

/* Must be called before any thread exists. *state_dir: the state directory, read-only, or -1; *cache: a
 * socket of the process that writes there (cache-process.h), or -1. After an error, which means that a
 * required step failed, the caller must exit. */
int broker_isolate(const struct isolation *how, int *state_dir, int *cache, struct error *err);

/* Its first steps, for a process that is forked before (egress-process.h). */
void isolate_limits(void);
int isolate_become(const struct isolation *how, struct error *err);
