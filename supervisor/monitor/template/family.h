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

/* The files that family_check() reads. A descriptor never shows a later process with the same pid. */
struct family {
        int threads;     /* the template's directory of threads */
        int children[2]; /* the lists of the template and of the stub */
};
#define FAMILY_INIT ((struct family){-1, {-1, -1}})

/* On failure too, family_close() is due. */
int family_open(pid_t stub, pid_t template, struct family *ret, struct error *err);
void family_close(struct family *family);

/* Whether stub and template have one thread each and no children. -EPERM, with a message that says
 * what is left, if not; -ESRCH when the template has ended. */
int family_check(const struct family *family, struct error *err);

/* Measures the template and all processes that it forked. Processes beyond `most` are not counted. */
void family_measure(pid_t stub, pid_t template, uint32_t most, struct family_usage *ret);
