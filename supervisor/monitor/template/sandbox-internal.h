/*
 * A sandbox as an object: its descriptors, its copies, and what acts on its processes. sandbox.c and sandbox-copy.c write it.
 */
#pragma once

#include "supervisor/monitor/template/sandbox.h"

/* A process that is, or may become, a copy of the worker. */
struct sandbox_copy {
        int dir;        /* of /proc: means this process, also when it has ended. -1: none */
        pid_t pid;      /* in the sandbox */
        uint64_t bytes; /* private memory when it was made; pages that copies share count in each */
        uint64_t tables; /* its page tables then */
        bool is_aside;   /* of INIT_KEEP_ASIDE */
};

struct sandbox {
        const struct sandbox_host *host;
        uint32_t handle, id, serial, principal;
        struct stub *stub;     /* referenced; NULL before there is a process */
        struct cgroup *cgroup; /* NULL: limited by rlimits */
        pid_t pid;
        int pidfd;
        int inner[SESSION_FD_MAX];
        bool is_placed;                 /* PID 1 was cloned into the control group */
        int rpc, out, err_out, changes; /* the broker's ends, until they are sent */
        int report, control;            /* init's */
        int listener;                   /* of its proxy, or -1 */
        struct networks *networks;      /* referenced; NULL: its network namespace is not kept */
        uint64_t network;               /* of networks_enter() */
        struct network_left left;       /* its network namespace, once it is being ended */
        struct sandbox_memory memory;   /* open while it runs without a control group */
        uint64_t limit;                 /* of memory, without a copy */
        bool has_sockets;               /* which its control group may not count */
        bool is_out_of_memory, is_killed;
        enum monitor_limit limit_reached; /* if it is */
        uint32_t oom_kills;               /* that were reported */
        uint64_t limit_hits;              /* of cgroup_has_reached_limit() */
        int32_t wait_status;              /* of the worker, when init has reported its end; -1 */
        uint32_t last_pid;                /* as reported with it */
        struct event *end, *reports;
        struct event *rest;   /* when the processor time of rest_ms may be used up */
        uint32_t rest_ms;     /* of sandbox_rest() */
        uint64_t rest_cpu_us; /* of the control group, as that began */
        bool is_stopped;      /* frozen, because that time was used */
        bool is_stopped_by_init;
        struct event
                *hold; /* of sandbox_hold(): when to look whether the control group is frozen */
        uint32_t hold_number;
        unsigned hold_looks;
        bool is_held, is_held_by_init;

        struct sandbox_copy copies[INIT_COPIES_MAX]; /* taken by init; the newest last */
        size_t n_copies;
        struct sandbox_copy candidate; /* until init answers: keep_serial */
        struct child_task *counting;   /* of sandbox_ask_held() */
        uint64_t held;                 /* what all copies hold at most, once the candidate is one */
        pid_t instead[INIT_INSTEAD_MAX];
        uint32_t keep_serial; /* 0: none */
};

/* NULL: no copy has this pid. */
struct sandbox_copy *sandbox_find_copy(struct sandbox *sandbox, pid_t pid);

/* Adds to the memory limit of a control group: page tables and first pages of the forks that Cloister makes of a worker for a
 * copy or a branch. Without it the OOM killer would end the worker of a session that is just below its limit: that has the
 * same memory as the fork. */
uint64_t sandbox_reserve(const struct sandbox *sandbox);

/* Answers sandbox_keep(), if it is unanswered: 0, init has taken the copy, or negative errno. */
void sandbox_end_keep(struct sandbox *sandbox, int r);
/* Init reported that a process has ended. Calls host->gone() if it was a copy. */
void sandbox_note_gone(struct sandbox *sandbox, pid_t pid);
/* This copy has become the worker: it and those that are aside leave the list. */
void sandbox_promote_copy(struct sandbox *sandbox, pid_t pid);
void sandbox_forget_copies(struct sandbox *sandbox);
