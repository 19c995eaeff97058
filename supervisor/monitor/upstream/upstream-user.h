/* The user that stdio servers run as. */
#pragma once

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

/*
 * Chooses the user: rootless, our own; else config `user`, else SUDO_UID (both may be NULL), else
 * our own with empty capability sets. Returns 1 in that last case when we are uid 0 (the caller
 * warns once), else 0. home and name are owned by *ret.
 */
int upstream_user_choose(enum sandbox_mode mode, const char *configured, const char *sudo_uid,
                         struct upstream_user *ret, struct error *err);
void upstream_user_done(struct upstream_user *user);
