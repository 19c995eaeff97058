/* The monitor's state. monitor.c makes and frees it; each group of members belongs to the file that its comment names. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/exit-status.h"
#include "policy/config/config.h"
#include "policy/package-set.h"
#include "policy/seccomp/rules.h"
#include "rpc/monitor-messages.h"
#include "supervisor/config/config-files.h"
#include "supervisor/config/config-watch.h"
#include "supervisor/monitor/broker-launch.h"
#include "supervisor/monitor/cgroup/cgroup-scope.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/memory-watch.h"
#include "supervisor/monitor/monitor-rule-tests.h"
#include "supervisor/monitor/notify.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/profiles.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/upstream/upstream.h"
#include "supervisor/options/options.h"

enum { MONITOR_UPSTREAMS_MAX = CONFIG_SERVERS_MAX + CONFIG_INSTANCES_MAX };

struct monitor_upstream {
        struct monitor *monitor;
        struct upstream *upstream; /* NULL: a free slot */
        uint32_t instance;         /* 0: not started, or the broker has the error */
        uint32_t serial;           /* of the request that started it; 0: answered */
        int fds[3];                /* the monitor's ends of its pipes, until the answer */
        pid_t pid;
        struct cgroup *cgroup; /* or NULL */
        struct event *exec, *end;
        /* Of an installer. */
        uint32_t principal;
        uint64_t memory;      /* the newest sample; 0: a control group counts it */
        struct event *sample; /* or NULL */
        bool is_over;         /* killed because of a sum */
};

/* A file of monitor-branches.c. */
struct monitor_branch {
        struct monitor_branch *next;
        struct monitor *monitor;
        uint32_t handle, principal;
        int fd;                  /* the memfd; -1: a control group counts it */
        struct cgroup *cgroup;   /* or NULL */
        struct child_task *task; /* until it has ended */
};

struct reading;
struct inject_process;

struct monitor {
        const struct options *options;
        struct event_base *base;
        struct config *config;
        struct config_files *files;
        int table_fd; /* the table of --as as it was last read, or -1; the first one is the option's */
        uint32_t generation; /* of config and files; grows */
        struct config_watch *config_watch;
        struct error config_error; /* why the files are not used as they are now; logged once */
        struct {
                struct config *config; /* NULL: none */
                struct config_files *files;
                struct monitor_rule_tests tests;
        } candidate;            /* a config whose "rule_tests" run: it is used if they pass */
        uint32_t reload_serial; /* of a request that waits for it; 0: none */
        struct ids ids;
        struct children *children;
        struct child_tasks *tasks;
        struct cgroups *cgroups;
        struct {
                pid_t pid;
                int pipe; /* when it closes, the janitor cleans up */
        } janitors[2];    /* the first, and one for the scope of systemd */
        size_t n_janitors;
        pid_t scope_pid; /* the child that asks systemd for a scope; 0: none */
        int scope;       /* its answer */
        int scope_asked_ms;
        struct event *scope_answer;
        bool is_entered; /* our processes are in their control group, or stay where they are */
        struct control_socket control;
        uint32_t sessions_max;
        struct upstream_user user;
        struct template_files template_files;
        char program[512];        /* path of `cloister`, which builds images */
        char broker_program[512]; /* path of `cloister-broker` */
        char access_program[512]; /* path of `cloister-access` */
        char inject_program[512]; /* path of `cloister-inject` */
        char state_path[512];     /* "": none */
        char tokens_path[512];    /* of --tokens, as it was opened; "": none */
        struct {
                char program[512]; /* path of `cloister-pictures` */
                pid_t pid;         /* 0: it does not run */
                int pidfd;
                struct event *end;
        } pictures; /* monitor-pictures.c */
        struct {
                char program[512]; /* path of `cloister-journal` */
                pid_t pid;         /* 0: it does not run */
                int pidfd;
                struct event *end;
        } journal; /* monitor-journal.c */
        struct {
                struct notify notify;
                uint64_t watchdog_us;        /* when the last WATCHDOG=1 was sent */
                bool is_ready, is_reloading; /* what the service manager knows */
        } service;                           /* monitor-service.c */
        bool has_http;                       /* the broker may reach servers by HTTP */
        bool has_network; /* it has started the process that has the network of sessions */

        /* the broker */
        pid_t broker;
        int broker_pidfd, link;
        struct log_relay *log_relay; /* or NULL */
        struct event *broker_end, *request, *signals[3], *kill_timer;
        int exit_status;

        /* sessions and profiles */
        struct image_choice image; /* of `image build`; all profiles use its store */
        struct image_job *image_job;
        struct event *early; /* starts the early profile's template */
        struct profiles *profiles;
        struct profile_host profile_host;
        struct sandbox_host sandbox_host;
        struct sandbox *
                *sandboxes; /* sessions_max slots; slot i has id i + 1 in root and capable mode */
        uint32_t *slots; /* the slot of the newest sandbox with this handle modulo sessions_max */
        uint32_t last_handle;
        struct memory_watch *memory;    /* used where there is no control group */
        struct sums *sums;              /* of monitor-sums.c */
        struct reading *secrets;        /* of monitor-secrets.c */
        struct inject_process *injects; /* of monitor-inject.c */
        struct monitor_branch *branches;
        uint32_t last_branch;

        struct monitor_upstream upstreams[MONITOR_UPSTREAMS_MAX + PACKAGES_INSTALLERS_MAX];
        uint32_t last_instance;
        struct monitor_request
                *delayed; /* requests to start servers, until the control group is known */
        size_t n_delayed;
};

/* Whether the broker serves clients (mcp, serve): it gets a control socket. */
static inline bool monitor_is_server(const struct options *options)
{
        return options->mode == MODE_MCP || options->mode == MODE_SERVE;
}

/* Whether the broker runs one script (run). */
static inline bool monitor_is_for_one(const struct options *options)
{
        return options->mode == MODE_RUN;
}

/* The exit status of `run` tells a failure of ours from an exception of the code. */
static inline int monitor_failure(const struct options *options)
{
        return monitor_is_for_one(options) ? EXIT_CLOISTER : 1;
}
