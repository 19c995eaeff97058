/*
 * A stdio MCP server: a tree of processes (npx, sh, node) on the host, started by the monitor by index.
 *
 * Its direct parent is a keeper, a process of ours that is a child subreaper in a session of its own: when the
 * server is stopped, when the keeper's pipe ends or the monitor dies in any way, the keeper ends every
 * process below it. The server gets its own pipes for 0, 1 and 2 and no other descriptor of ours.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/config.h"

struct upstream;

/* Who the server runs as: the caller's own ids, or others where we are root. */
struct upstream_user {
        uid_t uid;
        gid_t gid;
        const char *home;     /* NULL: keep HOME */
        const char *name;     /* for initgroups(); NULL: keep groups */
        int drop_capabilities; /* 1: stay this uid with empty capability sets */
};

/* server must be expanded. fds: [0] write end of its stdin, [1] read end of stdout, [2] read end of stderr, owned
 * by the caller. An exec that fails is an error here ("npx: No such file or directory in PATH"). */
int upstream_start(const struct config_server *server, const struct upstream_user *user,
                   struct upstream **ret, int fds[3], struct error *err);

/* The keeper's pidfd: readable when the whole tree is gone (borrowed). */
int upstream_pidfd(const struct upstream *upstream);

/* Asks for the end: closes the keeper's pipe; it sends SIGTERM to the tree, SIGKILL after 2 s. Returns at once. */
void upstream_stop(struct upstream *upstream);

/* After the pidfd is readable: reaps the keeper; the server's own wait status. */
int upstream_reap(struct upstream *upstream);

struct upstream *upstream_free(struct upstream *upstream); /* kills what is left */
