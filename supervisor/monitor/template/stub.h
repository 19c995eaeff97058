/*
 * PID 1 of the pid namespace of a template and its sessions, in the template's user namespace. It only
 * waits: when it ends, the kernel kills all processes of that pid namespace.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"

struct stub;

/* filter_fd: FILTER_STUB (borrowed). ids: the template's and its sessions'; the first is uid 0
 * inside. */
int stub_start(const struct ids *ids, int filter_fd, struct children *children, struct stub **ret,
               struct error *err);

/* The template and each of its sessions have a reference. stub_unref() returns NULL; the last one
 * kills and reaps the stub, and so all processes that are left in its pid namespace. */
struct stub *stub_ref(struct stub *stub);
struct stub *stub_unref(struct stub *stub);

/* Kills it, and so all of its pid namespace, without waiting: when the monitor ends. */
void stub_kill(const struct stub *stub);

pid_t stub_pid(const struct stub *stub);

/* Whether a living process is in its pid namespace, or in one whose parent it is. */
bool stub_has(const struct stub *stub, pid_t pid);

int stub_user_namespace(const struct stub *stub); /* borrowed descriptors */
int stub_pid_namespace(const struct stub *stub);

/* ---- the processes of its pid namespace ---- */

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
