/*
 * The monitor's upstream servers: started by index, named by instance afterwards.
 *
 * A request to start one is answered when its exec has succeeded or failed, or after
 * UPSTREAM_EXEC_SECONDS. A server that failed keeps its slot until its reaper has ended, which a
 * process in an uninterruptible sleep can delay.
 */
#include "supervisor/monitor/monitor-upstreams.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/places.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "policy/package-set.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/process/process-tree.h"

/*
 * A server that is reached by HTTP: the process that the monitor starts for it is cloister-access,
 * which tells the broker the url, the headers and the token. They are in the environment of that
 * process, because its arguments could be read by every process of the machine.
 */

/* execve() takes no longer string (MAX_ARG_STRLEN, 128 KiB). */
enum { ENTRY_MAX = 120 * 1024 };

enum { SAMPLE_MS = 50 };

static void write_list(struct json_out *out, const char *key, char *const *list)
{
        if (!list)
                return;
        json_out_begin(out, key, '[');
        for (; *list; list++)
                json_out_text(out, NULL, *list);
        json_out_end(out, ']');
}

static int write_entry(struct buffer *b, const struct config_server *server)
{
        struct json_out out = {.to = b};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", server->name);
        json_out_text(&out, "url", server->url);
        write_list(&out, "headers", server->headers);
        if (server->token_file)
                json_out_text(&out, "token_file", server->token_file);
        write_list(&out, "token_command", server->token_command);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(b, "", 1);
}

/* Makes an expanded config (with a url) one that runs cloister-access, whose path is program. */
static int upstream_access_prepare(struct config_server *server, const char *program,
                                   bool is_other_user, struct error *err)
{
        _cleanup_buffer_ struct buffer entry = BUFFER_INIT(ENTRY_MAX);
        char **env = reallocarray(server->env, server->n_env + 3, sizeof(char *));
        char *variable = NULL, place[PATH_MAX];

        if (!env)
                return error_errno(err, ENOMEM, "start");
        server->env = env;
        env[server->n_env] = NULL;
        int r = write_entry(&entry, server);
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "its url, headers and token are longer than %d KiB",
                                 ENTRY_MAX / 1024);
        if (r < 0 || asprintf(&variable, "CLOISTER_ACCESS=%s", buffer_bytes(&entry)) < 0)
                return error_errno(err, ENOMEM, "start");
        env[server->n_env++] = variable;
        env[server->n_env] = NULL;
        /* Logins are kept there (base/places.h). Another user has its own directory. */
        if (!is_other_user && place_service_state(place, sizeof(place))) {
                if (asprintf(&variable, "STATE_DIRECTORY=%s", place) < 0)
                        return error_errno(err, ENOMEM, "start");
                env[server->n_env++] = variable;
                env[server->n_env] = NULL;
        }
        server->command = strdup(program);
        return server->command ? 0 : error_errno(err, ENOMEM, "start");
}

static struct monitor_upstream *find_free_slot(struct monitor *m, size_t first, size_t n)
{
        for (size_t i = first; i < first + n; i++) {
                if (!m->upstreams[i].upstream)
                        return &m->upstreams[i];
        }
        return NULL;
}

static struct monitor_upstream *by_instance(struct monitor *m, uint32_t instance)
{
        for (size_t i = 0; i < ARRAY_SIZE(m->upstreams); i++) {
                if (m->upstreams[i].upstream && m->upstreams[i].instance == instance)
                        return &m->upstreams[i];
        }
        return NULL;
}

static void release(struct monitor_upstream *u)
{
        loop_free_events((struct event *[]){u->exec, u->end, u->sample}, 3);
        fd_close_many(u->fds, ARRAY_SIZE(u->fds));
        children_remove(u->monitor->children, u->pid);
        upstream_free(u->upstream);
        cgroup_free(u->cgroup);
        *u = (struct monitor_upstream){};
}

/* The exec succeeded or failed, or did neither in time. */
static void answer(struct monitor_upstream *u)
{
        struct monitor_event event = {.kind = MONITOR_UPSTREAM_STARTED, .serial = u->serial};
        struct monitor *m = u->monitor;
        struct error error = {};

        u->serial = 0;
        if (upstream_exec_result(u->upstream, &error) < 0) {
                upstream_kill(u->upstream);
                monitor_send_failed(m, event.serial, &error);
        } else {
                u->instance = event.target = ++m->last_instance;
                monitor_send(m, &event, u->fds, ARRAY_SIZE(u->fds));
        }
        fd_close_many(u->fds, ARRAY_SIZE(u->fds));
}

static void on_exec(evutil_socket_t fd, short what, void *data)
{
        answer(data);
}

static void log_oom(const struct monitor_upstream *u)
{
        const struct monitor *m = u->monitor;
        bool is_installer = u >= m->upstreams + MONITOR_UPSTREAMS_MAX;
        uint64_t seen = 0;

        if (!is_installer)
                log_warning(
                        "a process of a server was killed: all servers together reached the %llu MiB that \"memory_total\" leaves them",
                        (unsigned long long)(monitor_sums_servers(m) >> 20));
        else if (cgroup_has_reached_limit(u->cgroup, &seen))
                log_warning("a process of an installer was killed: it reached %d MiB",
                            PACKAGES_MEMORY >> 20);
        else
                log_warning(
                        "a process of an installer was killed: \"memory_total\" or \"memory=\" of its principal is reached");
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct monitor_upstream *u = data;
        struct monitor_event event = {.kind = MONITOR_UPSTREAM_ENDED};

        /* Both descriptors became readable at once, and this event was the first. */
        if (u->serial != 0)
                answer(u);
        event.target = u->instance;
        event.wait_status = upstream_reap(u->upstream);
        struct monitor *m = u->monitor;
        if (u->cgroup && cgroup_oom_kills(u->cgroup) > 0)
                log_oom(u);
        release(u);
        if (event.target != 0)
                monitor_send(m, &event, NULL, 0);
}

static const char *lookup(const char *name)
{
        return getenv(name);
}

static const struct config_values values = {lookup, credential_read};

/* The expanded config is freed at once, so that the values of variables are nowhere but in the
 * server's own environment. */
static int start_expanded(struct monitor *m, const struct config_server *configured,
                          struct monitor_upstream *u, struct error *err)
{
        struct config_server server;

        int r = config_copy(CONFIG_SERVER, configured, &server);
        if (r < 0)
                return error_errno(err, -r, "expand its config");
        r = config_server_expand(&server, &values, err);
        if (r >= 0 && server.url)
                r = upstream_access_prepare(&server, m->access_program, m->user.home != NULL, err);
        if (r >= 0)
                r = upstream_start(&server, &m->user, -1, &u->upstream, u->fds, err);
        config_done(CONFIG_SERVER, &server);
        return r;
}

static int watch(struct monitor_upstream *u)
{
        const struct timeval deadline = {.tv_sec = UPSTREAM_EXEC_SECONDS};
        struct event_base *base = u->monitor->base;

        u->exec = event_new(base, upstream_exec_fd(u->upstream), EV_READ, on_exec, u);
        u->end = event_new(base, upstream_pidfd(u->upstream), EV_READ, on_end, u);
        if (!u->exec || !u->end || event_add(u->exec, &deadline) < 0 || event_add(u->end, NULL) < 0)
                return -ENOMEM;
        return children_add(u->monitor->children, u->pid);
}

static void prepare(struct monitor *m, uint32_t serial, struct monitor_upstream *u)
{
        *u = (struct monitor_upstream){.monitor = m, .serial = serial, .fds = {-1, -1, -1}};
}

static void on_sample(evutil_socket_t fd, short what, void *data)
{
        struct monitor_upstream *u = data;

        u->memory = process_tree_memory(u->pid);
        monitor_sums_changed(u->monitor);
}

static int sample(struct monitor_upstream *u, struct error *err)
{
        const struct timeval every = clock_timeval_ms(SAMPLE_MS);

        u->sample = event_new(u->monitor->base, -1, EV_PERSIST, on_sample, u);
        return u->sample && event_add(u->sample, &every) == 0
                       ? 0
                       : error_errno(err, ENOMEM, "watch the installer");
}

/* An installer's group is that of its principal, and also counts what the kernel keeps for it. Without groups samples count
 * in the sums, and its own limits must do for the rest (rootfs/installer-sandbox.c). */
static int place(struct monitor_upstream *u, bool is_installer, struct error *err)
{
        struct cgroups *cgroups = u->monitor->cgroups;
        const struct limits limits = {.memory = PACKAGES_MEMORY, .pids = PACKAGES_PIDS};

        if (cgroups_version(cgroups) == CGROUP_NONE)
                return is_installer ? sample(u, err) : 0;
        int r = is_installer ? cgroup_new_of(cgroups, u->principal, 0, &limits, &u->cgroup, err)
                             : cgroup_new_server(cgroups, &u->cgroup, err);
        return r < 0 ? r : cgroup_add(u->cgroup, u->pid, err);
}

/* Starts what its reaper was forked for. */
static int follow(struct monitor_upstream *u, bool is_installer, struct error *err)
{
        u->pid = upstream_pid(u->upstream);
        int r = watch(u);
        if (r < 0)
                error_errno(err, -r, "watch the server");
        else
                r = place(u, is_installer, err);
        if (r < 0)
                release(u);
        else
                upstream_release(u->upstream);
        return r;
}

static int start_by_index(struct monitor *m, const struct monitor_request *request,
                          struct error *err)
{
        if (request->target >= m->config->n_servers)
                return error_set(err, EINVAL, "there is no server %u", request->target);
        struct config_server *server = &m->config->servers[request->target];
        if (server->problem)
                return error_set(err, EINVAL, "%s", server->problem);
        if (server->disabled)
                return error_set(err, EINVAL, "it is disabled");
        if (server->url && !m->has_http)
                return error_set(
                        err, EPERM,
                        "Cloister was started without servers over HTTP, and may reach none: start it again");
        struct monitor_upstream *u = find_free_slot(m, 0, MONITOR_UPSTREAMS_MAX);
        if (!u)
                return error_set(err, EAGAIN, "%d servers run already", MONITOR_UPSTREAMS_MAX);
        prepare(m, request->serial, u);
        int r = start_expanded(m, server, u, err);
        return r < 0 ? r : follow(u, false, err);
}

/* Starts a program of ours in a slot of installers; its config needs no expansion. */
static int start_program(struct monitor *m, const struct config_server *program, int filter,
                         const struct monitor_request *request, struct error *err)
{
        struct monitor_upstream *u = find_free_slot(m, MONITOR_UPSTREAMS_MAX,
                                                    PACKAGES_INSTALLERS_MAX);

        if (!u)
                return error_set(err, EAGAIN, "%d installations are running already",
                                 PACKAGES_INSTALLERS_MAX);
        prepare(m, request->serial, u);
        u->principal = request->principal.id;
        int r = upstream_start(program, &m->user, filter, &u->upstream, u->fds, err);
        return r < 0 ? r : follow(u, true, err);
}

/* Its reaper is forked in the group that Cloister has then. */
static int delay(struct monitor *m, const struct monitor_request *request, struct error *err)
{
        if (!m->delayed)
                m->delayed = calloc(MONITOR_UPSTREAMS_MAX, sizeof(*m->delayed));
        if (!m->delayed)
                return error_errno(err, ENOMEM, "start");
        if (m->n_delayed == MONITOR_UPSTREAMS_MAX)
                return error_set(err, EAGAIN, "%d servers start already", MONITOR_UPSTREAMS_MAX);
        m->delayed[m->n_delayed++] = *request;
        return 0;
}

void monitor_upstreams_bounds_known(struct monitor *m)
{
        for (size_t i = 0; i < m->n_delayed; i++)
                monitor_upstream_start(m, &m->delayed[i]);
        m->n_delayed = 0;
        free(m->delayed);
        m->delayed = NULL;
}

bool monitor_has_upstreams(const struct monitor *m)
{
        for (size_t i = 0; i < ARRAY_SIZE(m->upstreams); i++) {
                if (m->upstreams[i].upstream)
                        return true;
        }
        return false;
}

void monitor_upstream_start(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        if (m->scope_pid > 0) {
                if (delay(m, request, &error) < 0)
                        monitor_send_failed(m, request->serial, &error);
        } else if (start_by_index(m, request, &error) < 0)
                monitor_send_failed(m, request->serial, &error);
}

void monitor_upstream_stop(struct monitor *m, const struct monitor_request *request)
{
        struct monitor_upstream *u = by_instance(m, request->target);

        /* Where it has ended already, UPSTREAM_ENDED has been sent. */
        if (u)
                upstream_stop(u->upstream);
        monitor_send_done(m, request->serial);
}

/* The reapers outlive the monitor and end their trees, SIGTERM first. */
void monitor_upstreams_done(struct monitor *m)
{
        free(m->delayed);
        for (size_t i = 0; i < ARRAY_SIZE(m->upstreams); i++) {
                struct monitor_upstream *u = &m->upstreams[i];
                if (!u->upstream)
                        continue;
                upstream_stop(u->upstream);
                event_free(u->exec);
                event_free(u->end);
                if (u->sample)
                        event_free(u->sample);
        }
}

/* ---- the program that installs packages for sessions ---- */

/*
 * It runs as the user that images belong to, as an upstream server would. The broker, which talks to
 * it, names a profile only: what may be installed, from where and how much comes from the config that
 * the monitor has read. The index may have credentials: it is in the program's environment, not in
 * its arguments, which every process of the machine can read.
 */
/* The variable of struct config_packages, without the index. */
static int write_settings(struct buffer *b, const struct config_profile *profile)
{
        const struct config_packages *p = &profile->packages;
        struct json_out out = {.to = b};

        int r = buffer_append_text(b, PACKAGES_VARIABLE "=");
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "profile", profile->name);
        json_out_text(&out, "language", language_names[profile->language]);
        write_list(&out, "allow", p->allow);
        write_list(&out, "allow_npm", p->allow_npm);
        if (p->exclude_newer)
                json_out_text(&out, "exclude_newer", p->exclude_newer);
        json_out_int(&out, "max_bytes", (int64_t)p->max_bytes);
        json_out_int(&out, "timeout_ms", (int64_t)p->timeout_ms);
        json_out_end(&out, '}');
        if (r >= 0)
                r = out.error;
        return r < 0 ? r : buffer_append(b, "", 1);
}

static int start_installer(struct monitor *m, const struct config_profile *profile,
                           const struct monitor_request *request, struct error *err)
{
        _cleanup_buffer_ struct buffer settings = BUFFER_INIT(ENTRY_MAX);
        _cleanup_free_ char *index = NULL, *variable = NULL, *libraries = NULL;
        const char *path = getenv("LD_LIBRARY_PATH");
        const char *python = profile->python ? profile->python : m->image.python;
        const char *arguments[] = {"package-installer", "--store", m->image.store,
                                   "--python",          python,    NULL};
        char *environment[5] = {}, place[48];
        struct config_server program = {
                .name = (char *)"package installer",
                .command = m->program,
                .args = (char **)arguments,
                .n_args = ARRAY_SIZE(arguments) - 1,
                .env = environment,
        };

        int r = config_packages_index(&profile->packages, profile->language, &values, &index, err);
        if (r < 0)
                return r;
        r = write_settings(&settings, profile);
        if (r >= 0 && index && asprintf(&variable, PACKAGES_INDEX_VARIABLE "=%s", index) < 0)
                r = -ENOMEM;
        /* Some interpreters find their libraries only with it. */
        if (r >= 0 && path && asprintf(&libraries, "LD_LIBRARY_PATH=%s", path) < 0)
                r = -ENOMEM;
        if (r < 0)
                return error_errno(err, -r, "settings");
        int filter = template_files_filter(&m->template_files, FILTER_INSTALLER, err);
        if (filter < 0)
                return filter;
        snprintf(place, sizeof(place), PACKAGES_FILTER_VARIABLE "=%d", filter);
        environment[program.n_env++] = place;
        environment[program.n_env++] = buffer_bytes(&settings);
        if (variable)
                environment[program.n_env++] = variable;
        if (libraries)
                environment[program.n_env++] = libraries;
        return start_program(m, &program, filter, request, err);
}

void monitor_installer_start(struct monitor *m, const struct monitor_request *request)
{
        struct monitor_event refused = {.kind = MONITOR_FAILED, .serial = request->serial};
        struct error *error = &refused.error;
        int r;

        if (request->target >= m->config->n_profiles)
                r = error_set(error, EINVAL, "there is no profile %u", request->target);
        else if (!m->config->profiles[request->target].packages.install)
                r = error_set(error, EPERM, "the profile does not allow it");
        else
                r = monitor_sums_admit(m, &request->principal, &refused.target, error);
        if (r >= 0)
                r = start_installer(m, &m->config->profiles[request->target], request, error);
        if (r >= 0)
                return;
        error_context(error, "install packages");
        monitor_send(m, &refused, NULL, 0);
}
