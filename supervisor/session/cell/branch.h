/*
 * The state of a session for its branches (docs/branches.md): a file of the monitor, to which the worker
 * that is copied writes, and which the workers of the branches get when it is whole. No descriptor that can be written to is shared
 * by two sandboxes. The broker never reads the file.
 *
 * A branch is referenced by the cells that belong to it.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/session/cell/session-name.h"

struct cell;

enum {
        BRANCH_MS = 30000,     /* from the request to the end of the file */
        BRANCH_TURN_MS = 5000, /* until it has a place; then it is refused */
        BRANCH_WHY_MAX = 640,
        BRANCHES_MAX = 8, /* files that are being written or loaded at a time */
};

/* The monitor counts the file for its principal until the last reference is dropped. Sessions that are branches of it hold one. */
struct branch_file {
        unsigned refs;
        uint32_t handle; /* the monitor's */
        void (*drop)(void *data, uint32_t handle);
        void *data;
};

/* Of a LOAD cell. branch.c writes it, except for `cell`. */
struct branch_load {
        struct cell *cell;
        struct branch_load *next;
        bool is_unsent;
};

enum branch_phase {
        BRANCH_NEW,
        BRANCH_ASKED, /* the monitor, for the file */
        BRANCH_WRITING,
        BRANCH_WHOLE,
        BRANCH_FAILED, /* `why` says why */
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

        enum branch_phase phase;
        uint32_t serial; /* of the request, while ASKED */
        int writer;      /* the end of the worker that is copied; -1: it has it, or there is none */
        int fd;          /* the file, while a cell needs it; else -1 */
        bool is_dumped, is_sealed; /* both: it is whole */
        int end;                   /* of a pipe that closes when the file has ended */
        struct event *over, *late, *turn;
        struct branch *next; /* of those that wait for a place */
        struct branch_file *file;
        size_t unsent;                          /* cells whose worker has not got the file */
        struct branch_load *waiting;            /* cells that run already */
        void (*placed)(struct branch *branch);  /* `waiting` had to wait for that */
        void (*settled)(struct branch *branch); /* it is WHOLE or has FAILED */
};

/* Where BRANCHES_MAX or the principal's part of them are taken, it waits for a place: for BRANCH_TURN_MS, then it fails. Returns 0 or -ENOMEM. */
int branch_new(struct branch **ret, struct event_base *base, const char *from, uint64_t copy,
               const char *checkpoint, struct error *err);
bool branch_has_place(const struct branch *branch);
struct branch *branch_ref(struct branch *branch);
struct branch *branch_unref(struct branch *branch); /* NULL is allowed; returns NULL */

/* The request for the file was sent. */
int branch_asked(struct branch *branch, uint32_t serial, struct error *err);
/* The one that waits for the answer with this serial, or NULL. */
struct branch *branch_find_asked(uint32_t serial);
/* Takes the file, the descriptors of BRANCH_STARTED in any case. */
int branch_started(struct branch *branch, struct branch_file *file, const int fds[3],
                   struct error *err);
/* The writing end was passed on: only the worker has it now. */
void branch_writer_sent(struct branch *branch);
/* The worker has written all. */
void branch_dumped(struct branch *branch);
/* Ends it, unless it is whole. The first reason stays. */
void branch_fail(struct branch *branch, const char *why);

/* A LOAD cell was made; it runs and waits; it was sent or is freed. */
void branch_expect(struct branch *branch, struct branch_load *load);
void branch_wait(struct branch *branch, struct branch_load *load);
void branch_forget(struct branch *branch, struct branch_load *load);

/* NULL: out of memory. */
struct branch_file *branch_file_new(uint32_t handle, void (*drop)(void *data, uint32_t handle),
                                    void *data);
struct branch_file *branch_file_ref(struct branch_file *file);
struct branch_file *branch_file_unref(struct branch_file *file); /* NULL is allowed; returns NULL */
