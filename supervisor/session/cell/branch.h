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

#include "base/error.h"

enum {
        BRANCH_MS = 30000, /* for all of it, from the requests to both workers on */
        BRANCH_WHY_MAX = 640,
        BRANCHES_MAX = 8, /* at a time: each takes a buffer, and time of the event loop */
};

struct branch;

/* Returns 0, -EBUSY (BRANCHES_MAX, or the principal's part of them) or -ENOMEM. from: key of the session that is copied;
 * copy: id of its copy that is, and the name of that checkpoint; 0 and "": the session as it is now. */
int branch_new(struct branch **ret, struct event_base *base, const char *from, uint64_t copy,
               const char *checkpoint, struct error *err);
struct branch *branch_ref(struct branch *branch);
struct branch *branch_unref(struct branch *branch); /* NULL is allowed; returns NULL */

const char *branch_from(const struct branch *branch);
uint64_t branch_copy(const struct branch *branch);
const char *branch_checkpoint(const struct branch *branch);

/* Makes the pipes and starts. The caller owns *reader, for the new worker; most: bytes that may pass. */
int branch_start(struct branch *branch, uint64_t most, int *reader, struct error *err);
/* The other worker's end; the branch stays its owner. -1: not started, failed or taken. */
int branch_writer(const struct branch *branch);
/* It was passed on: only the worker has it now. */
void branch_writer_sent(struct branch *branch);

/* Ends it. The first reason stays. */
void branch_fail(struct branch *branch, const char *why);
/* Closes the pipes. */
void branch_end(struct branch *branch);
const char *branch_why(const struct branch *branch); /* "": it has not failed */
bool branch_was_late(const struct branch *branch);
