/*
 * The life of the monitor.
 *
 * Theory of operation. In this order, the monitor
 *
 *   1. saves its limits and umask, which upstream servers get back, and becomes non-dumpable.
 *   2. starts the janitor, which cleans up if the monitor is killed, and looks for control groups.
 *      Without a limit on memory and pids there is no service; cgroups and rlimits are such limits.
 *      If systemd has to give us a group, a child asks it; only sessions wait for the reply.
 *   3. reads the config into sealed memfds; in the privileged modes only files that root owns. When a
 *      file changes, all are read again and sent to the broker as the next generation.
 *   4. tries which mode and ids it may use.
 *   5. drops the capabilities that it does not need any more. It loads no filter and does not set
 *      no_new_privs: npx and newuidmap, which it starts, would inherit them.
 *   6. starts the broker in its namespaces and sends it the config: then the broker answers its
 *      client. For `cloister run` the image is read first, because that way takes longest.
 *   7. runs the event loop, which never waits: what may take longer than a millisecond is an event, a
 *      child or a timer. The template starts when a session is requested, or shortly after the start.
 *
 * A server that gets SIGTERM drains: the broker ends by itself once calls are answered (supervisor/service/drain.h), and is
 * killed if it does not in time. SIGHUP has it reload (supervisor/broker/reload.h). monitor-service.c tells the service manager.
 *
 * When the broker ends, the monitor ends with its status. The kernel ends everything that it started:
 * parent-death signals, pid namespaces, reapers, the janitor.
 */
#include "supervisor/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit-status.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/path.h"
#include "base/places.h"
#include "base/program.h"
#include "policy/config/node-keys.h"
#include "policy/seccomp/filter.h"
#include "supervisor/monitor/broker-launch.h"
#include "supervisor/monitor/image/image-store.h"
#include "supervisor/monitor/monitor-config.h"
#include "supervisor/monitor/monitor-inject.h"
#include "supervisor/monitor/monitor-journal.h"
#include "supervisor/monitor/monitor-limits.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-pictures.h"
#include "supervisor/monitor/monitor-requests.h"
#include "supervisor/monitor/monitor-secrets.h"
#include "supervisor/monitor/monitor-service.h"
#include "supervisor/monitor/monitor-sessions.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/monitor-upstreams.h"
#include "supervisor/monitor/process/child.h"
#include "supervisor/monitor/process/refused-calls.h"
#include "supervisor/monitor/process/time-slice.h"
#include "supervisor/monitor/upstream/upstream-exec.h"

enum {
        WATCH_MS = 250, /* after the start, the config is watched */
        EARLY_MS =
                50, /* after the start, the template starts: the client's handshake comes first */
        /* After drain_timeout: cells that were interrupted end, results are fetched, answers are written
         * (supervisor/service/drain.h). */
        DRAIN_END_SECONDS = 20,
        SEND_SECONDS = 5 /* a broker that does not read for this time is killed */
};

static int choose_image(struct monitor *m, struct error *err)
{
        const struct config *config = m->config;
        int i = m->options->profile ? config_find_profile(config, m->options->profile, err)
                                    : (int)config->profile;

        if (i < 0)
                return i;
        const struct config_profile *profile = &config->profiles[i];
        const char *python = m->options->python || m->options->rootfs || m->options->oci
                                     ? m->options->python
                                     : profile->python;
        const char *name = m->options->image ? m->options->image : profile->image;
        const struct package_set *set = package_set_empty(&m->options->set) ? NULL
                                                                            : &m->options->set;
        int r = set && !m->options->image ? image_choose_set(set, python, &m->image, err)
                                          : image_choose(name, python, &m->image, err);
        if (r < 0)
                return r;
        m->image.rootfs = m->options->rootfs;
        m->image.oci = m->options->oci;
        m->image.python_from = m->options->python_from;
        m->image.with_private = m->options->with_private;
        m->image.set = set;
        if (m->options->node &&
            (r = image_choose_node(&m->image, m->options->node, m->options->pyodide, err)) < 0)
                return r;
        m->image.python_downloads = profile->python_downloads;
        return image_choice_check(&m->image, err);
}

static int choose_user(struct monitor *m, struct error *err)
{
        int r = upstream_user_choose(m->ids.mode, m->config->user, getenv("SUDO_UID"), &m->user,
                                     err);
        if (r < 0)
                return r;
        if (r == 1 && m->config->n_servers > 0)
                log_warning(
                        "servers run as uid 0 without capabilities; name another user with \"user\" in the config");
        return m->ids.mode == SANDBOX_ROOTLESS ? 0 : image_store_create(&m->image, &m->user, err);
}

/* The broker keeps its cache there. Without it the broker has no list of tools before the servers have
 * started. */
static void make_state(struct monitor *m)
{
        char *path = m->state_path;
        size_t size = sizeof(m->state_path);

        char service[PATH_MAX];
        if (m->ids.mode == SANDBOX_ROOTLESS) {
                if (place_state("", path, size) < 0)
                        *path = '\0';
        } else if (place_service_state(service, sizeof(service))) {
                /* The rest of that directory is not the broker's. */
                if ((size_t)snprintf(path, size, "%s/state", service) >= size)
                        *path = '\0';
        } else {
                snprintf(path, size, "/var/lib/cloister/state");
        }
        (void)path_make_parents(path, 0755);
        /* In the privileged modes it is the broker's of today; what another left there is just not
         * used. */
        bool there = *path && (mkdir(path, 0700) == 0 || errno == EEXIST);
        if (there && m->ids.mode != SANDBOX_ROOTLESS &&
            lchown(path, m->ids.broker, m->ids.broker) < 0)
                log_info("give %s to uid %u: %s", path, m->ids.broker, strerrordesc_np(errno));
        struct stat st;
        if (!*path || lstat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
                log_info("no directory for the cache of tools (%s)",
                         *path ? path : PLACE_STATE_MISSING);
                *path = '\0';
        }
}

/* Only `mcp` has sessions that another command could list. */
static void choose_control(struct monitor *m)
{
        struct error why = {};

        if (monitor_is_server(m->options) && control_socket_choose(&m->control, &why) < 0)
                log_warning("'cloister sessions' will not see this server: %s", why.text);
}

static void open_control(struct monitor *m)
{
        struct error why = {};

        if (!*m->control.path ||
            control_socket_open(&m->control, m->config->control_group, &why) >= 0)
                return;
        /* The socket may exist, only without its group. */
        log_warning(m->control.fd < 0
                            ? "'cloister sessions' will not see this server: %s"
                            : "only the server's user and root may use its control socket: %s",
                    why.text);
}

static bool has_http_servers(const struct config *config)
{
        for (size_t i = 0; i < config->n_servers; i++) {
                const struct config_server *s = &config->servers[i];
                if (s->transport != CONFIG_STDIO && !s->problem && !s->disabled)
                        return true;
        }
        return false;
}

static bool has_network_profiles(const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles; i++)
                if (config->profiles[i].network == CONFIG_NETWORK_ALLOW)
                        return true;
        return false;
}

static void on_lines_lost(void *data, uint64_t n)
{
        monitor_send(data, &(struct monitor_event){.kind = MONITOR_LOG_ERRORS, .lines = n}, NULL,
                     0);
}

static const char *lookup(const char *name)
{
        return getenv(name);
}

static int start_broker(struct monitor *m, struct error *err)
{
        char node[NODE_NAME_MAX + 1] = "";

        if (m->options->mode == MODE_SERVE && config_node_name(m->config, lookup, node, err) < 0)
                return err->code > 0 ? -err->code : -EINVAL;
        m->has_http = has_http_servers(m->config);
        m->has_network = has_network_profiles(m->config);
        _cleanup_close_ int filter = filter_compile(
                m->has_http ? FILTER_BROKER_HTTP : FILTER_BROKER, err);
        if (filter < 0)
                return filter;
        _cleanup_close_ int egress = m->has_network ? filter_compile(FILTER_EGRESS, err) : -1;
        if (m->has_network && egress < 0)
                return egress;
        _cleanup_close_ int relayed = -1;
        int r = log_relay_new(&m->log_relay, m->base, on_lines_lost, m, &relayed, err);
        if (r < 0)
                return r;
        int log = relayed;
        if (log < 0 && log_get_fd() != STDERR_FILENO)
                log = log_get_fd();
        struct broker_launch how = {.ids = &m->ids,
                                    .program = m->broker_program,
                                    .filter_fd = filter,
                                    .egress_filter_fd = egress,
                                    .has_http = m->has_http,
                                    .control_fd = m->control.fd,
                                    .log_fd = log,
                                    .probe = notify_is_wanted(&m->service.notify),
                                    .watchdog_ms = monitor_service_watchdog(m),
                                    .state_path = *m->state_path ? m->state_path : NULL,
                                    .node_name = *node ? node : NULL,
                                    .options = m->options};
        m->broker = broker_launch(&how, m->children, &m->link, err);
        if (m->broker < 0)
                return m->broker;
        m->broker_pidfd = (int)syscall(SYS_pidfd_open, m->broker, 0);
        if (m->broker_pidfd < 0)
                return error_errno(err, errno, "pidfd_open");
        /* They are the broker's: while the monitor has a copy, their peers see no end of file. */
        int passed[OPTION_FDS_MAX];
        fd_close_many(passed, options_fds(m->options, PROGRAM_BROKER, passed));
        if (m->control.fd >= 0)
                close(take_fd(m->control.fd));
        struct timeval timeout = {.tv_sec = SEND_SECONDS};
        if (setsockopt(m->link, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
                return error_errno(err, errno, "SO_SNDTIMEO");
        monitor_send_config(m);
        return 0;
}

static void on_broker_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        int status = monitor_failure(m->options) << 8; /* as wait() has it */

        if (waitpid(m->broker, &status, 0) < 0)
                log_error("wait for the broker: %s", strerror(errno));
        children_remove(m->children, m->broker);
        m->broker = 0;
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM && WTERMSIG(status) != SIGKILL)
                log_error("the broker was killed by signal %d", WTERMSIG(status));
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && monitor_is_server(m->options))
                log_info("the broker ended with status %d", WEXITSTATUS(status));
        m->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        event_base_loopbreak(m->base);
}

static void on_kill_timer(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;

        log_error("the broker has not ended in time after %s; killing it",
                  event_pending(m->request, EV_READ, NULL) ? "SIGTERM" : "it closed its link");
        child_signal(m->broker, SIGKILL);
}

/* How long the broker may take after SIGTERM: a server drains, unless it does already. */
static struct timeval time_to_end(const struct monitor *m)
{
        struct timeval t = {.tv_sec = MONITOR_KILL_SECONDS};

        if (m->options->mode == MODE_SERVE && !event_pending(m->kill_timer, EV_TIMEOUT, NULL))
                t.tv_sec += DRAIN_END_SECONDS + m->config->drain_timeout_ms / 1000;
        return t;
}

static void on_signal(evutil_socket_t number, short what, void *data)
{
        struct monitor *m = data;
        struct timeval after = time_to_end(m);
        int signal = number == SIGINT ? SIGINT : SIGTERM;

        if (number == SIGHUP && m->options->mode == MODE_SERVE) {
                monitor_service_hangup(m);
                return;
        }
        child_signal(m->broker, signal);
        if (signal != SIGTERM)
                return;
        event_add(m->kill_timer, &after);
        if (m->options->mode == MODE_SERVE)
                monitor_service_stopping(m, (uint64_t)after.tv_sec);
}

/* The kernel takes milliseconds to watch a directory of many names, such as /tmp, and delays every
 * lookup in it meanwhile: not while the client waits for its handshake. A change before is found
 * when the watch starts. */
static void on_watch_time(evutil_socket_t fd, short what, void *data)
{
        monitor_limits_enter(data);
        monitor_watch_config(data);
}

/* SIGHUP reloads a server: it must not end one that starts. `cloister serve` has blocked it already. */
static void hold_hangup(int how)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        sigprocmask(how, &set, NULL);
}

static int watch(struct monitor *m, struct error *err)
{
        static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
        struct timeval early = {.tv_usec = EARLY_MS * 1000};
        struct timeval later = {.tv_usec = WATCH_MS * 1000};
        bool ok = true;

        m->broker_end = event_new(m->base, m->broker_pidfd, EV_READ, on_broker_end, m);
        m->request = event_new(m->base, m->link, EV_READ | EV_PERSIST, monitor_on_request, m);
        m->kill_timer = evtimer_new(m->base, on_kill_timer, m);
        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                m->signals[i] = evsignal_new(m->base, signals[i], on_signal, m);
                ok = ok && m->signals[i] && event_add(m->signals[i], NULL) == 0;
        }
        hold_hangup(SIG_UNBLOCK);
        if (!ok || !m->broker_end || !m->request || !m->kill_timer ||
            event_add(m->broker_end, NULL) < 0 || event_add(m->request, NULL) < 0)
                return error_errno(err, ENOMEM, "watch the broker");
        int r = monitor_limits_watch(m, err);
        if (r < 0)
                return r;
        /* `run` reads its config once. */
        if (monitor_is_server(m->options))
                event_base_once(m->base, -1, EV_TIMEOUT, on_watch_time, m, &later);
        /* `tools` starts no session, and `run` has asked for its template already. */
        if (monitor_is_server(m->options))
                event_add(m->early, &early);
        return 0;
}

static int set_up(struct monitor *m, struct error *err)
{
        m->base = loop_new();
        if (!m->base)
                return error_errno(err, ENOMEM, "event loop");
        int r = child_tasks_new(m->base, m->children, &m->tasks, err);
        m->exit_status = monitor_failure(m->options);
        if (r >= 0)
                r = program_path("cloister", m->program, sizeof(m->program), err);
        if (r >= 0)
                r = program_path("cloister-broker", m->broker_program, sizeof(m->broker_program),
                                 err);
        if (r >= 0)
                r = program_path("cloister-access", m->access_program, sizeof(m->access_program),
                                 err);
        if (r >= 0)
                r = program_path("cloister-pictures", m->pictures.program,
                                 sizeof(m->pictures.program), err);
        if (r >= 0)
                r = program_path("cloister-journal", m->journal.program, sizeof(m->journal.program),
                                 err);
        if (r >= 0)
                r = program_path("cloister-inject", m->inject_program, sizeof(m->inject_program),
                                 err);
        if (r >= 0)
                r = template_files_open(&m->template_files, err);
        if (r >= 0)
                r = monitor_load_config(m, err);
        if (r < 0)
                return r;
        r = ids_choose(m->config->id_first, m->config->id_count, m->sessions_max + 2, &m->ids, err);
        if (r < 0) {
                m->exit_status = EXIT_NO_SANDBOX;
                return r;
        }
        r = choose_image(m, err);
        if (r >= 0)
                r = choose_user(m, err);
        return r;
}

static int start(struct monitor *m, struct error *err)
{
        int r = children_new(&m->children, err);

        if (r < 0)
                return r;
        choose_control(m);
        r = monitor_limits_init(m, err);
        if (r >= 0)
                r = set_up(m, err);
        if (r < 0)
                return r;
        r = monitor_sums_set(m, err);
        if (r < 0)
                return r;
        /* The janitor runs: it removes the socket if the monitor is killed. */
        open_control(m);
        make_state(m);
        /* Root's groups are dropped. An ordinary user cannot drop groups, and they are
         * the user's own. */
        if (m->ids.mode != SANDBOX_ROOTLESS && setgroups(0, NULL) < 0)
                return error_errno(err, errno, "give up supplementary groups");
        r = monitor_sessions_init(m, err);
        if (r >= 0)
                r = ids_drop_privilege(m->ids.mode,
                                       m->scope_pid > 0 || cgroups_version(m->cgroups) == CGROUP_V2,
                                       err);
        if (r < 0)
                return r;
        m->exit_status = EXIT_NO_SANDBOX;
        /* `run` has no handshake, and always needs a session. */
        if (monitor_is_for_one(m->options))
                monitor_sessions_prepare(m);
        r = start_broker(m, err);
        if (r >= 0)
                r = watch(m, err);
        if (r >= 0)
                m->exit_status = monitor_failure(m->options); /* until the broker ends */
        return r;
}

static void done(struct monitor *m)
{
        struct event *events[] = {m->broker_end, m->request,    m->kill_timer,
                                  m->signals[0], m->signals[1], m->signals[2]};

        if (m->broker > 0) {
                child_kill(m->broker);
        }
        if (m->base) {
                monitor_pictures_done(m);
                monitor_journal_done(m);
                monitor_upstreams_done(m);
                monitor_secrets_done(m);
                monitor_inject_done(m);
                monitor_sessions_done(m);
        }
        monitor_service_done(m);
        m->log_relay = log_relay_free(m->log_relay);
        loop_free_events(events, ARRAY_SIZE(events));
        int fds[] = {m->link, m->broker_pidfd};
        child_tasks_free(m->tasks);
        monitor_limits_done(m);
        fd_close_many(fds, ARRAY_SIZE(fds));
        template_files_done(&m->template_files);
        upstream_user_done(&m->user);
        children_free(m->children);
        config_watch_free(m->config_watch);
        monitor_drop_candidate(m);
        config_files_free(m->files);
        config_free(m->config);
        if (m->base)
                event_base_free(m->base);
        libevent_global_shutdown();
}

static void monitor_init(struct monitor *m, const struct options *options)
{
        *m = (struct monitor){.options = options,
                              .control = {.fd = -1},
                              .scope = -1,
                              .broker_pidfd = -1,
                              .link = -1,
                              .exit_status = EXIT_NO_SANDBOX};
        template_files_init(&m->template_files);
        monitor_service_init(m);
        upstream_remember();
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGPIPE, SIG_IGN);
        time_slice_shorten();
}

/* A call that a filter around this process refuses shows up as another error at each place, often in
 * a process that then just ends. Asked after a failure only: code that ran had all these calls. */
static int explain(int status)
{
        static struct refused_calls calls;
        char refused[500];

        if (status == 0 || !refused_calls_filtered())
                return status;
        refused_calls_try(&calls);
        if (refused_calls_list(&calls, true, refused, sizeof(refused)) == 0)
                return status;
        log_error(
                "a seccomp filter around this process refuses %s: 'cloister doctor' prints the command that lifts it",
                refused);
        return EXIT_NO_SANDBOX;
}

int monitor_serve(const struct options *options)
{
        static struct monitor m;
        struct error error = {};

        monitor_init(&m, options);
        if (start(&m, &error) < 0)
                log_error("%s", error.text);
        else if (loop_run(m.base) < 0)
                m.exit_status = monitor_failure(options);
        done(&m);
        return explain(m.exit_status);
}

static void on_built(void *data, const struct error *error)
{
        struct monitor *m = data;

        if (error)
                log_error("%s", error->text);
        m->exit_status = error ? 1 : 0;
        event_base_loopbreak(m->base);
}

int monitor_build_image(const struct options *options)
{
        static struct monitor m;
        struct error error = {};

        monitor_init(&m, options);
        int r = children_new(&m.children, &error);
        bool has_packages = !package_set_empty(&options->set);
        if (r >= 0 && has_packages)
                r = monitor_limits_init(&m, &error);
        if (r >= 0)
                r = set_up(&m, &error);
        if (r >= 0 && has_packages)
                r = monitor_limits_settle(&m, &error);
        if (r >= 0)
                r = ids_drop_privilege(m.ids.mode, false, &error);
        m.image.link = options->link;
        if (r >= 0)
                r = image_job_start(m.base, m.children, m.cgroups, m.program, &m.image, &m.user,
                                    options->quiet, on_built, NULL, &m, &m.image_job, &error);
        if (r < 0)
                log_error("%s", error.text);
        else if (loop_run(m.base) < 0)
                m.exit_status = 1;
        image_job_free(m.image_job);
        done(&m);
        return m.exit_status;
}
