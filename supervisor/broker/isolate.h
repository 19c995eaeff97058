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
        int keep[27]; /* descriptors that stay open beside 0, 1, 2 and MONITOR_FD; -1: none */
};

/* Must be called before any thread exists. *state_dir: the state directory, read-only, or -1; *cache: a
 * socket of the process that writes there (supervisor/hub/cache/writer.h), or -1. After an error, which means that a
 * required step failed, the caller must exit. */
int broker_isolate(const struct isolation *how, int *state_dir, int *cache, struct error *err);

/* Its first steps, for a process that is forked before (network.h). */
void isolate_limits(void);
int isolate_become(const struct isolation *how, struct error *err);

enum root_network { ROOT_ALONE, ROOT_NAMES, ROOT_HTTP };

/*
 * Builds an empty read-only tmpfs, makes it the root and unmounts the old one. Needs CAP_SYS_ADMIN. It has
 *
 *     /state              the state directory (state_path, or NULL), writable until its writer runs
 *
 * and, for ROOT_NAMES and ROOT_HTTP,
 *
 *     /etc                read-only, and so is the rest: names of hosts and resolvers, certificates
 *     the directory that /etc/resolv.conf links to: a bind mount of the file would keep an old one
 *     CA certificates     ROOT_HTTP: where distributions keep them outside /etc
 */
int isolate_root(const char *state_path, enum root_network network, struct error *err);
