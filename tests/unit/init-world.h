/*
 * PID 1 of a sandbox in a pid namespace of its own, with its pipes, and processes that do what the test says: the test is the
 * monitor, and the worker and its copies are stand-ins.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "rpc/sandbox-messages.h"

enum {
        WORKER = 2,        /* its pid in the namespace */
        FOREVER = 1 << 30, /* a pid that no process has */
};

struct init_world {
        pid_t outer; /* the process whose child is PID 1; ends with its status */
        int control, report, release, orders;
        pid_t made[64]; /* copies, by make_copies() */
};

void init_world_open(struct init_world *w);
void init_world_close(struct init_world *w);

void request(struct init_world *w, enum init_verb verb, int32_t pid);
void request_keep(struct init_world *w, enum init_verb verb, int32_t pid, int32_t instead,
                  int32_t instead_too);

/* The next report, which must be this one; returns its value. */
int32_t expect(struct init_world *w, enum init_report_kind kind, int32_t pid);
/* A report `first` may come before it. */
void expect_perhaps_after(struct init_world *w, enum init_report_kind first,
                          enum init_report_kind kind);
/* init has handled all requests, and there are no other reports. */
void expect_none(struct init_world *w);
/* It has reported its last and ended. */
void expect_end(struct init_world *w);

/* Orders to the worker, or to the copy that has replaced it. It answers with a number. */
enum order {
        COPY = 1,      /* a sleeping copy, which has stopped; the answer: its pid */
        MUTE_COPY,     /* one that never says that it is awake */
        CHILD,         /* the worker's own child, which waits */
        STOPPED_CHILD, /* one that has stopped */
        ORPHAN,        /* a child of init that waits */
        SPINNER,       /* the worker's own child, which computes */
        CONTINUER,     /* the worker's own child, which a timer continues after 300 ms */
        CONTINUERS,    /* the same, at each millisecond from 100 to 3000 */
        SIGINTS,       /* how often they have come */
        REMINDERS,
        EXIT, /* no answer */
        WHO,  /* its pid */
        HANG, /* it cannot be stopped until its child ends; no answer */
};
int order(struct init_world *w, enum order order);
/* The next answer without an order: a copy that was woken sends its pid, negative if it must roll
 * files back. */
int awaken(struct init_world *w);

/* Whether a process of the namespace lives; it may end for two seconds before that is true. */
bool lives(struct init_world *w, pid_t pid);
bool ends(struct init_world *w, pid_t pid);
bool is_stopped(struct init_world *w, pid_t pid);
/* Its pid here, -1: it does not live. Takes a while: all processes of the machine are looked at. */
pid_t outside(const struct init_world *w, pid_t pid);
