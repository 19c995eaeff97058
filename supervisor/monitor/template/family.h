/*
 * The processes of a template's pid namespace that belong to no session: stub and template, and
 * what code of the image has forked. Seen from outside, through /proc/PID/task/TID/children. An
 * orphan becomes a child of the stub, so that the children of these two, and theirs, are all of them.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct family_usage {
        uint64_t memory;    /* bytes, at most: a page that processes share counts for each */
        uint32_t processes; /* and further threads */
};

/* Whether stub and template have one thread each and no children. -EPERM, with a message that says
 * what is left, if not. */
int family_check(pid_t stub, pid_t template, struct error *err);

/* What the template and all that it has forked use. Processes beyond `most` are not counted. */
void family_measure(pid_t stub, pid_t template, uint32_t most, struct family_usage *ret);
