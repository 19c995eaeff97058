/*
 * System call filters as data: which calls each kind of process may make, with which arguments
 * (docs/seccomp.md). Tables only; policy/seccomp/filter.h compiles them.
 *
 * A rule sets the answer to some calls, either always or if all its comparisons are true. A
 * comparison uses the low 32 bits of an int argument, as the kernel does, and all 64 bits of a
 * pointer. There are no comparisons of ranges, which libseccomp 2.4.0 to 2.6.0 miscompiles
 * (GHSA-4q85-33p6-j5g6). Two rules of one call with different actions never match the same
 * arguments, so that their order does not matter; a test checks this. A call that no rule matches
 * gets the table's default, ENOSYS: a C library newer than the table falls back to older calls.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/seccomp/rule.h"

enum filter_kind {
        FILTER_WORKER,          /* the guest */
        FILTER_WORKER_LOOPBACK, /* with sockets of the internet families, for a lo that is up */
        FILTER_WORKER_MOUNTS, /* with host directories: no socket of AF_UNIX, which would reach the
                                 host's through a file in them */
        FILTER_WORKER_LOOPBACK_MOUNTS,
        FILTER_WORKER_WRITABLE, /* one of the host directories can be written to */
        FILTER_WORKER_LOOPBACK_WRITABLE,
        FILTER_TEMPLATE, /* the worker's, and the set-up of a session */
        FILTER_TEMPLATE_LOOPBACK,
        FILTER_TEMPLATE_RLIMITS, /* where no control group counts memory: none that belongs to no
                                    process; also holds for the template's sessions */
        FILTER_TEMPLATE_LOOPBACK_RLIMITS,
        FILTER_TEMPLATE_LOCKS_FIRST, /* the same four, with a mount whose locks are those of the host's files */
        FILTER_TEMPLATE_LOCKS = FILTER_TEMPLATE_LOCKS_FIRST - FILTER_TEMPLATE,
        FILTER_INIT = FILTER_TEMPLATE_LOCKS_FIRST + FILTER_TEMPLATE_LOCKS, /* PID 1 of a sandbox */
        FILTER_INIT_LOCKS,                                                 /* with such a mount */
        FILTER_STUB,        /* PID 1 of the outer pid namespace: read and exit */
        FILTER_BROKER,      /* the broker after its start: no socket but pairs */
        FILTER_BROKER_HTTP, /* with servers that are reached by HTTP: sockets of the internet families */
        FILTER_EGRESS,      /* the proxy of sessions that have a network */
        FILTER_READER,      /* reads image.json and the notes of an image store */
        FILTER_PICTURE,   /* checks one picture */
        FILTER_JOURNAL,   /* opens and signs the files of the journal */
        FILTER_INJECT,    /* has the secrets of HTTPS requests, between sockets that it was given */
        FILTER_UNPACKER,  /* unpacks the layers of a container image */
        FILTER_INSTALLER, /* the program that installs packages for sessions */
        FILTER_KIND_MAX,
};

const char *filter_kind_name(enum filter_kind kind);

enum {
        FILTER_PARTS_MAX = 11,
        FILTER_NAME_MAX = 32,
};

struct filter_table {
        const char *name;
        uint32_t otherwise; /* SECCOMP_RET_… of calls that no rule matches */
        const struct filter_rule *parts[FILTER_PARTS_MAX + 1];
};

const struct filter_table *filter_table(enum filter_kind kind);

/* Copies the next name at *calls and advances *calls. Returns its length, 0 at the end. */
size_t filter_next_call(const char **calls, char ret[static FILTER_NAME_MAX]);

/* The number of a call that is newer than the libseccomp 2.5 of Debian 12, the same on all supported
 * architectures; negative when the name is not in that list. */
int filter_recent_number(const char *name);
