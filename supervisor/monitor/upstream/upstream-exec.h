/* The user that stdio servers run as, and from the fork of a server's process to its exec: user, directory,
 * limits, search in PATH. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/sandbox-messages.h"

/* The user of a server: the monitor's own, or another where the monitor is root. */
struct upstream_user {
        uid_t uid;
        gid_t gid;
        char *home;            /* NULL: keep HOME */
        char *name;            /* for initgroups(), USER and LOGNAME; NULL: keep groups and names */
        int drop_capabilities; /* 1: keep this uid, with empty capability sets */
};

/* Saves the limits, umask and oom score that the monitor started with; servers get them back.
 * Call it first. */
void upstream_remember(void);

/* Borrowed; made before the fork. */
struct upstream_launch {
        char *const *argv;
        char *const *env; /* its PATH is searched */
        const char *cwd;  /* or NULL */
        const struct upstream_user *user;
        int passed_fd; /* stays open in the server; -1: none */
        bool apart;    /* in namespaces of its own (apart.h) */
};

/* Becomes the user (permanently). Returns 0 or negative errno. */
int upstream_become(const struct upstream_user *user, struct error *err);

/* Returns only on failure. Descriptors 0, 1 and 2 are the server's already, all others but
 * passed_fd are O_CLOEXEC. */
int upstream_exec(const struct upstream_launch *launch, struct error *err);

/*
 * Chooses the user: rootless, our own; else config `user`, else SUDO_UID (both may be NULL), else
 * our own with empty capability sets. Returns 1 in that last case when we are uid 0 (the caller
 * warns once), else 0. home and name are owned by *ret.
 */
int upstream_user_choose(enum sandbox_mode mode, const char *configured, const char *sudo_uid,
                         struct upstream_user *ret, struct error *err);
void upstream_user_done(struct upstream_user *user);
