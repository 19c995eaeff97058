/* The monitor's state, which its files share. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "policy/seccomp/rules.h"
#include "rpc/monitor-messages.h"
#include "supervisor/config/config-files.h"
#include "supervisor/config/config-watch.h"
#include "supervisor/monitor/cgroup/cgroup-scope.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/control-socket.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/log-relay.h"
#include "supervisor/monitor/memory-watch.h"
#include "supervisor/monitor/monitor.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/process/children.h"
#include "supervisor/monitor/profiles.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/upstream/upstream.h"

enum {
        MONITOR_UPSTREAMS_MAX = CONFIG_SERVERS_MAX,
        MONITOR_INSTALLERS_MAX = 4, /* that install packages at the same time */
};

struct monitor_upstream {
        struct monitor *monitor;
        struct upstream *upstream; /* NULL: a free slot */
        uint32_t instance;         /* 0: not started, or the broker has the error */
        uint32_t serial;           /* of the request that started it; 0: answered */
        int fds[3];                /* the monitor's ends of its pipes, until the answer */
        pid_t pid;
        struct event *exec, *end;
};

struct monitor {
        const struct options *options;
        struct event_base *base;
        struct config *config;
        struct config_files *files;
        uint32_t generation; /* of config and files; grows */
        struct config_watch *config_watch;
        struct error config_error; /* why the files are not used as they are now; logged once */
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
        struct control_socket control;
        uint32_t sessions_max;
        struct upstream_user user;
        struct template_files template_files;
        char program[512];        /* path of `cloister`, which builds images */
        char broker_program[512]; /* path of `cloister-broker` */
        char access_program[512]; /* path of `cloister-access` */
        char state_path[512];     /* "": none */
        bool has_http;            /* the broker may reach servers by HTTP */
        bool has_network;         /* it has started the process that has the network of sessions */

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
        uint32_t last_handle;
        struct memory_watch *memory; /* used where there is no control group */

        struct monitor_upstream upstreams[MONITOR_UPSTREAMS_MAX + MONITOR_INSTALLERS_MAX];
        uint32_t last_instance;
};

/* Sends an event to the broker, which is killed if it does not receive it in time. */
void monitor_send(struct monitor *m, const struct monitor_event *event, const int *fds, size_t n);
void monitor_send_done(struct monitor *m, uint32_t serial);
void monitor_send_failed(struct monitor *m, uint32_t serial, const struct error *error);

/* The broker sends no requests any more: it has ended, or is killed soon. */
void monitor_end_link(struct monitor *m);

/* monitor-config.c */
int monitor_load_config(struct monitor *m, struct error *err);
void monitor_send_config(struct monitor *m); /* HELLO, the files, READY */
void monitor_watch_config(struct monitor *m);
/* True: the request is of an earlier generation and has been refused with ESTALE. */
bool monitor_refuse_stale(struct monitor *m, const struct monitor_request *request);

/* monitor-requests.c: the table of requests */
void monitor_on_request(evutil_socket_t fd, short what, void *data);

/* monitor-limits.c */
int monitor_limits_init(struct monitor *m, struct error *err);  /* first of all */
int monitor_limits_watch(struct monitor *m, struct error *err); /* once there is a loop */
void monitor_limits_done(struct monitor *m);                    /* last of all */
enum monitor_usage monitor_limits_usage(const struct monitor *m);

/* monitor-sessions.c */
int monitor_sessions_init(struct monitor *m, struct error *err);
void monitor_sessions_done(struct monitor *m);
/* The profiles of a config, in place of those that there are; on failure they stay. */
int monitor_sessions_load(struct monitor *m, struct config *config, struct error *err);
/* Starts the early profile's template. */
void monitor_sessions_prepare(struct monitor *m);
void monitor_session_create(struct monitor *m, const struct monitor_request *request);
void monitor_session_interrupt(struct monitor *m, const struct monitor_request *request);
void monitor_session_kill(struct monitor *m, const struct monitor_request *request);
void monitor_session_freeze(struct monitor *m, const struct monitor_request *request);
void monitor_session_thaw(struct monitor *m, const struct monitor_request *request);
void monitor_session_keep(struct monitor *m, const struct monitor_request *request);
void monitor_session_restore(struct monitor *m, const struct monitor_request *request);
void monitor_session_count(struct monitor *m, const struct monitor_request *request);
void monitor_session_wake(struct monitor *m, const struct monitor_request *request);
void monitor_session_drop(struct monitor *m, const struct monitor_request *request);

/* monitor-mounts.c; data: struct monitor */
int monitor_mount_guards(void *data, struct mount_guards *guards, struct error *err);

/* monitor-upstreams.c */
void monitor_upstreams_done(struct monitor *m);
void monitor_upstream_start(struct monitor *m, const struct monitor_request *request);
void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request);
/* Starts a program of ours in a slot of installers; its config needs no expansion. */
int monitor_upstream_start_installer(struct monitor *m, const struct config_server *program,
                                     uint32_t serial, struct error *err);

/* monitor-installers.c */
void monitor_installer_start(struct monitor *m, const struct monitor_request *request);
