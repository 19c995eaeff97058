/*
 * The bytes of a branch on their way from one worker to another (docs/branches.md): two pipes, and the broker
 * between them, which passes on what it reads and never looks into it. No descriptor is shared by the two
 * sandboxes.
 *
 * A branch is referenced by the cells that belong to it.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/session/cell/session-name.h"

enum {
        BRANCH_MS = 30000, /* for all of it, from the requests to both workers on */
        BRANCH_WHY_MAX = 640,
        BRANCHES_MAX = 8, /* at a time: each takes a buffer, and time of the event loop */
};

/* branch.c writes it. */
struct branch {
        unsigned refs;
        struct event_base *base;
        char from[SESSION_KEY_MAX + 1]; /* key of the session that is copied */
        uint64_t copy;                  /* id of its copy that is; 0: the session as it is now */
        char checkpoint[SESSION_NAME_MAX + 1]; /* name of that copy, or "" */
        char why[BRANCH_WHY_MAX];              /* the reason of its failure, or "" */
        bool was_late;

        int in, out; /* of the broker */
        int writer;  /* the end of the worker that is copied; -1: not started, failed or sent */
        struct event *readable, *writable, *late;
        uint64_t left;         /* bytes that may still pass */
        struct buffer passing; /* what was read and not written yet */
};

/* Returns 0, -EBUSY (BRANCHES_MAX, or the principal's part of them) or -ENOMEM. */
int branch_new(struct branch **ret, struct event_base *base, const char *from, uint64_t copy,
               const char *checkpoint, struct error *err);
struct branch *branch_ref(struct branch *branch);
struct branch *branch_unref(struct branch *branch); /* NULL is allowed; returns NULL */

/* Makes the pipes and starts. The caller owns *reader, for the new worker; most: bytes that may pass. */
int branch_start(struct branch *branch, uint64_t most, int *reader, struct error *err);
/* It was passed on: only the worker has it now. */
void branch_writer_sent(struct branch *branch);

/* Ends it. The first reason stays. */
void branch_fail(struct branch *branch, const char *why);
/* Closes the pipes. */
void branch_end(struct branch *branch);
