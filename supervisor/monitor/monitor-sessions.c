/* The monitor's sessions: the slots, the broker's requests about them, and what profiles need to
 * make them. */
#include "supervisor/monitor/monitor-sessions.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/places.h"
#include "supervisor/monitor/monitor-branches.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-secrets.h"
#include "supervisor/monitor/monitor-state.h"
#include "supervisor/monitor/monitor-sums.h"
#include "supervisor/monitor/template/sandbox-copy.h"

static bool holds(const struct monitor *m, uint32_t slot, uint32_t handle)
{
        return m->sandboxes[slot] && sandbox_handle(m->sandboxes[slot]) == handle;
}

/* A later sandbox may have taken the entry of an earlier one that lives on. */
static struct sandbox **slot_of(struct monitor *m, uint32_t handle)
{
        uint32_t i = m->slots[handle % m->sessions_max];

        if (holds(m, i, handle))
                return &m->sandboxes[i];
        for (i = 0; i < m->sessions_max; i++) {
                if (holds(m, i, handle))
                        return &m->sandboxes[i];
        }
        return NULL;
}

static void release(void *data, struct sandbox *sandbox)
{
        struct monitor *m = data;
        struct sandbox **slot = slot_of(m, sandbox_handle(sandbox));
        uint32_t principal = sandbox_principal(sandbox);

        *slot = NULL;
        memory_watch_forget(m->memory, (uint32_t)(slot - m->sandboxes));
        sandbox_free(sandbox);
        monitor_sums_weigh(m, principal);
}

static void on_sandbox_ended(void *data, struct sandbox *sandbox, const struct monitor_ended *how)
{
        struct monitor_event event = {
                .kind = MONITOR_SESSION_ENDED, .target = sandbox_handle(sandbox), .ended = *how};

        event.ended.limit_bytes = monitor_sums_limit(data, sandbox_principal(sandbox), how->limit);
        release(data, sandbox);
        monitor_send(data, &event, NULL, 0);
}

static void on_copy_kept(void *data, struct sandbox *sandbox, uint32_t serial, int r)
{
        struct error error = {};

        if (r >= 0) {
                monitor_send_done(data, serial);
                return;
        }
        error_errno(&error, -r, "copy of session %u", sandbox_handle(sandbox));
        monitor_send_failed(data, serial, &error);
}

static void on_sandbox_cleared(void *data, struct sandbox *sandbox, const struct monitor_ended *how,
                               int fds[SESSION_COUNTERS])
{
        struct monitor_event event = {
                .kind = MONITOR_SESSION_CLEARED, .target = sandbox_handle(sandbox), .ended = *how};

        monitor_send(data, &event, fds, SESSION_COUNTERS);
        fd_close_many(fds, SESSION_COUNTERS);
}

static void on_copy_gone(void *data, struct sandbox *sandbox, pid_t pid)
{
        struct monitor_event event = {.kind = MONITOR_SESSION_GONE,
                                      .target = sandbox_handle(sandbox),
                                      .copy = (uint32_t)pid};

        monitor_send(data, &event, NULL, 0);
}

static void on_stopped(void *data, struct sandbox *sandbox, uint32_t n)
{
        struct monitor_event event = {
                .kind = MONITOR_SESSION_STOPPED, .target = sandbox_handle(sandbox), .stopped = n};

        monitor_send(data, &event, NULL, 0);
}

static void on_swept(void *data, struct sandbox *sandbox)
{
        struct monitor_event event = {.kind = MONITOR_SESSION_SWEPT,
                                      .target = sandbox_handle(sandbox)};

        monitor_send(data, &event, NULL, 0);
}

static void on_held(void *data, struct sandbox *sandbox, uint32_t number, bool has_run)
{
        struct monitor_event event = {.kind = has_run ? MONITOR_SESSION_RAN : MONITOR_SESSION_HELD,
                                      .target = sandbox_handle(sandbox),
                                      .held = has_run ? 0 : number};

        monitor_send(data, &event, NULL, 0);
}

static void on_counted(void *data, struct sandbox *sandbox, const struct monitor_counted *counted)
{
        struct monitor *m = data;
        struct monitor_event event = {.kind = MONITOR_SESSION_COUNTED,
                                      .target = sandbox_handle(sandbox),
                                      .counted = *counted};

        event.counted.memory = memory_watch_used(m->memory, sandbox);
        monitor_send(data, &event, NULL, 0);
}

static void on_memory(void *data, struct sandbox *sandbox, uint64_t bytes)
{
        struct monitor_event event = {
                .kind = MONITOR_SESSION_MEMORY, .target = sandbox_handle(sandbox), .memory = bytes};

        monitor_send(data, &event, NULL, 0);
        monitor_sums_changed(data);
}

/* ---- The paths that no sandbox may mount: they belong to Cloister ---- */

struct guarded {
        const char *path, *what;
        enum mount_guard_kind kind;
};

static int guard(struct mount_guards *guards, const struct guarded *list, size_t n,
                 struct error *err)
{
        int r = 0;

        for (size_t i = 0; i < n && r >= 0; i++) {
                if (list[i].path && *list[i].path)
                        r = mount_guards_add(guards, list[i].path, list[i].what, list[i].kind, err);
        }
        return r;
}

/* The directory of a file; "" of "". */
static void cut_name(const char *path, char *ret, size_t size)
{
        const char *slash = strrchr(path, '/');

        snprintf(ret, size, "%.*s", slash ? (int)(slash - path) : 0, path);
}

/* The path of an open file; "" of -1. */
static void path_of(int fd, char *ret, size_t size)
{
        char link[64];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = fd < 0 ? 0 : readlink(link, ret, size - 1);
        ret[n < 0 ? 0 : n] = '\0';
}

/* "": there is none. */
static int own_directory(int (*place)(const char *below, char *ret, size_t size),
                         char ret[PATH_MAX], struct error *err)
{
        int r = place("", ret, PATH_MAX);

        if (r == -ENOENT)
                *ret = '\0';
        return r < 0 && r != -ENOENT ? error_errno(err, -r, "the path of Cloister's directories")
                                     : 0;
}

static int add_guards(void *data, struct mount_guards *guards, struct error *err)
{
        const struct monitor *m = data;
        char programs[sizeof(m->program)], config[PATH_MAX], state[PATH_MAX], log[PATH_MAX];
        char credentials[PATH_MAX];
        char sockets[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];
        size_t n_sockets = control_directories_here(sockets);

        cut_name(m->program, programs, sizeof(programs));
        path_of(log_file_is_bounded() ? log_get_fd() : -1, log, sizeof(log));
        int r = own_directory(place_config, config, err);
        if (r >= 0)
                r = own_directory(place_state, state, err);
        if (r < 0)
                return r;
        const struct guarded list[] = {
                {m->image.store, "the image store", MOUNT_GUARD_DIRECTORY},
                {m->state_path, "Cloister's state", MOUNT_GUARD_PRIVATE},
                {state, "Cloister's state", MOUNT_GUARD_PRIVATE},
                {log, "the log", MOUNT_GUARD_PRIVATE},
                {m->tokens_path, "the tokens", MOUNT_GUARD_PRIVATE},
                {place_credentials(credentials, sizeof(credentials)) ? credentials : "",
                 "the credentials", MOUNT_GUARD_PRIVATE},
                {"/etc/cloister", "Cloister's config", MOUNT_GUARD_DIRECTORY},
                {config, "Cloister's config", MOUNT_GUARD_DIRECTORY},
                {programs, "where Cloister's programs are", MOUNT_GUARD_FILE},
        };
        r = guard(guards, list, ARRAY_SIZE(list), err);
        for (size_t i = 0; i < n_sockets && r >= 0; i++)
                r = mount_guards_add(guards, sockets[i], "control sockets", MOUNT_GUARD_PRIVATE,
                                     err);
        for (size_t i = 0; i < config_files_count(m->files) && r >= 0; i++)
                r = mount_guards_add(guards, config_files_path(m->files, i), "the config",
                                     MOUNT_GUARD_FILE, err);
        return r;
}

/* ---- What profiles need (profiles.h) ---- */

static bool bounds_known(void *data)
{
        const struct monitor *m = data;

        return m->scope_pid == 0;
}

static int make(void *data, const struct profile_session *session, struct error *err)
{
        struct monitor *m = data;
        uint32_t i = 0, tried = 0;

        /* Code reads its host id in /proc/self/uid_map: a random one, since the lowest free one would tell how many others live. */
        if (getrandom(&i, sizeof(i), GRND_NONBLOCK) < 0)
                i = 0;
        for (i %= m->sessions_max; tried < m->sessions_max && m->sandboxes[i]; tried++)
                i = (i + 1) % m->sessions_max;
        if (tried == m->sessions_max)
                return error_set(
                        err, EAGAIN,
                        "all %u sessions are in use: end one with 'cloister sessions end NAME', or raise \"sessions\"",
                        m->sessions_max);
        uint32_t id = session->ids->count == 1 ? 0 : i + 1;
        bool is_counted = cgroups_version(m->cgroups) != CGROUP_NONE;
        int r = sandbox_new(&m->sandbox_host, ++m->last_handle, id, session->serial,
                            session->principal, session->limits, &m->sandboxes[i], err);
        if (r < 0)
                return r;
        m->slots[m->last_handle % m->sessions_max] = i;
        monitor_sums_weigh(m, session->principal);
        if (!is_counted || session->limits->socket_buffers > 0)
                memory_watch_wake(m->memory);
        r = template_make(session->template, m->sandboxes[i], session->limits, !is_counted, err);
        if (r < 0)
                release(m, m->sandboxes[i]);
        return r;
}

static void started(void *data, struct sandbox *sandbox, const int fds[SESSION_FDS])
{
        struct monitor_event event = {.kind = MONITOR_SESSION_STARTED,
                                      .serial = sandbox_serial(sandbox),
                                      .target = sandbox_handle(sandbox)};
        struct monitor_event network = {.kind = MONITOR_SESSION_NETWORK,
                                        .target = sandbox_handle(sandbox)};

        monitor_sums_weigh(data, sandbox_principal(sandbox));
        _cleanup_close_ int listener = sandbox_take_listener(sandbox);
        if (listener >= 0)
                monitor_send(data, &network, &listener, 1);
        monitor_send(data, &event, fds, SESSION_FDS);
}

static void failed(void *data, uint32_t serial, const struct error *error)
{
        monitor_send_failed(data, serial, error);
}

static void building(void *data, uint32_t index, const char *line)
{
        struct monitor_event event = {.kind = MONITOR_PROFILE_BUILDING, .target = index};

        snprintf(event.line, sizeof(event.line), "%s", line);
        monitor_send(data, &event, NULL, 0);
}

/* ---- Requests of the broker ---- */

void monitor_session_create(struct monitor *m, const struct monitor_request *request)
{
        struct error error = {};

        if (request->target < m->config->n_profiles && !m->has_network &&
            m->config->profiles[request->target].network == CONFIG_NETWORK_ALLOW) {
                error_set(
                        &error, EPERM,
                        "profile \"%s\" has a network, and Cloister was started without one: restart Cloister",
                        m->config->profiles[request->target].name);
                monitor_send_failed(m, request->serial, &error);
                return;
        }
        if (monitor_secrets_hold(m, request, monitor_session_create))
                return;
        struct monitor_event refused = {.kind = MONITOR_FAILED, .serial = request->serial};
        if (monitor_sums_admit(m, &request->principal, &refused.target, &refused.error) < 0) {
                monitor_send(m, &refused, NULL, 0);
                return;
        }
        if (request->number > 0 &&
            monitor_sums_admit_spare(m, &request->principal, request->number, &error) < 0) {
                monitor_send_failed(m, request->serial, &error);
                return;
        }
        event_del(m->early);
        profiles_request(m->profiles, request->target, request->serial, request->principal.id);
}

/* Returns 0 or negative errno. */
static int pass(struct monitor *m, struct sandbox *sandbox, const struct monitor_request *request)
{
        pid_t pid = (pid_t)request->number;
        pid_t instead[INIT_INSTEAD_MAX];

        for (size_t i = 0; i < INIT_INSTEAD_MAX; i++)
                instead[i] = (pid_t)request->instead[i];
        switch ((enum monitor_verb)request->verb) {
        case MONITOR_SESSION_INTERRUPT:
                return sandbox_ask_init(sandbox, INIT_INTERRUPT, pid);
        case MONITOR_SESSION_KILL:
                sandbox_kill(sandbox);
                monitor_sums_weigh(m, sandbox_principal(sandbox));
                return 0;
        case MONITOR_SESSION_FREEZE:
        case MONITOR_SESSION_THAW:
                return sandbox_freeze(sandbox, request->verb == MONITOR_SESSION_FREEZE);
        case MONITOR_SESSION_KEEP:
        case MONITOR_SESSION_KEEP_ASIDE:
                return sandbox_keep(sandbox, pid, request->verb == MONITOR_SESSION_KEEP_ASIDE,
                                    instead, request->serial);
        case MONITOR_SESSION_RESTORE:
                return sandbox_restore(sandbox, pid);
        case MONITOR_SESSION_WAKE:
                return sandbox_ask_init(sandbox, INIT_WAKE, pid);
        case MONITOR_SESSION_COUNT:
                return sandbox_ask_init(sandbox, INIT_COUNT, pid);
        case MONITOR_SESSION_HOLD:
                return sandbox_hold(sandbox, request->number);
        case MONITOR_SESSION_REST:
                return sandbox_rest(sandbox, request->number);
        case MONITOR_SESSION_SWEEP:
                return sandbox_ask_init(sandbox, INIT_SWEEP, pid);
        case MONITOR_SESSION_DROP:
                return sandbox_drop(sandbox, pid);
        default:
                return -EOPNOTSUPP;
        }
}

void monitor_session_request(struct monitor *m, const struct monitor_request *request)
{
        struct sandbox **slot = slot_of(m, request->target);
        bool is_kill = request->verb == MONITOR_SESSION_KILL,
             is_keep = request->verb == MONITOR_SESSION_KEEP ||
                       request->verb == MONITOR_SESSION_KEEP_ASIDE;
        struct error error = {};

        int r = !slot ? -ESRCH
                : is_keep && !monitor_sums_allow_copy(m, (uint32_t)(slot - m->sandboxes))
                        ? -EDQUOT
                        : pass(m, *slot, request);
        /* The broker gets MONITOR_SESSION_ENDED for one that has just ended by itself. */
        if (r < 0 && !is_kill) {
                error_errno(&error, -r, "session %u", request->target);
                monitor_send_failed(m, request->serial, &error);
        } else if (!is_keep) { /* otherwise on_copy_kept() follows */
                monitor_send_done(m, request->serial);
        }
}

void monitor_sessions_prepare(struct monitor *m)
{
        profiles_prepare(m->profiles);
}

static void on_early(evutil_socket_t fd, short what, void *data)
{
        monitor_sessions_prepare(data);
}

int monitor_sessions_load(struct monitor *m, struct config *config, struct error *err)
{
        const struct options *o = m->options;
        const struct profile_choice choice = {
                .image = o->image,
                .python = o->python,
                .set = package_set_empty(&o->set) ? NULL : &o->set,
        };

        return profiles_load(m->profiles, config, o->profile, &choice, err);
}

int monitor_sessions_init(struct monitor *m, struct error *err)
{
        /* The broker gets the descriptor, and the monitor closes it. */
        path_of(m->options->tokens_fd, m->tokens_path, sizeof(m->tokens_path));
        m->sandbox_host = (struct sandbox_host){.base = m->base,
                                                .children = m->children,
                                                .cgroups = m->cgroups,
                                                .ended = on_sandbox_ended,
                                                .data = m,
                                                .tasks = m->tasks,
                                                .kept = on_copy_kept,
                                                .gone = on_copy_gone,
                                                .cleared = on_sandbox_cleared,
                                                .stopped = on_stopped,
                                                .swept = on_swept,
                                                .held = on_held,
                                                .counted = on_counted,
                                                .has_reached_sum = monitor_sums_has_reached};
        m->profile_host = (struct profile_host){.base = m->base,
                                                .children = m->children,
                                                .tasks = m->tasks,
                                                .cgroups = &m->cgroups,
                                                .ids = &m->ids,
                                                .files = &m->template_files,
                                                .user = &m->user,
                                                .builder = m->program,
                                                .quiet = m->options->quiet,
                                                .for_one = monitor_is_for_one(m->options),
                                                .sessions_max = m->sessions_max,
                                                .data = m,
                                                .bounds_known = bounds_known,
                                                .make = make,
                                                .started = started,
                                                .failed = failed,
                                                .building = building,
                                                .release = release,
                                                .guards = add_guards};
        m->sandboxes = calloc(m->sessions_max, sizeof(struct sandbox *));
        m->slots = calloc(m->sessions_max, sizeof(uint32_t));
        m->early = evtimer_new(m->base, on_early, m);
        if (!m->sandboxes || !m->slots || !m->early)
                return error_errno(err, ENOMEM, "sessions");
        const struct memory_watch_host memory = {m->base,         m->tasks, m->sandboxes,
                                                 m->sessions_max, m,        on_memory};
        int r = memory_watch_new(&memory, &m->memory, err);
        if (r >= 0)
                r = profiles_new(&m->profile_host, &m->profiles, err);
        return r < 0 ? r : monitor_sessions_load(m, m->config, err);
}

/* Killed together, since the kernel takes a while to end each. */
static void kill_all(struct monitor *m)
{
        for (uint32_t i = 0; i < m->sessions_max; i++) {
                if (m->sandboxes[i])
                        sandbox_kill(m->sandboxes[i]);
        }
}

void monitor_sessions_done(struct monitor *m)
{
        if (m->early)
                event_free(m->early);
        if (m->sandboxes)
                kill_all(m);
        monitor_branches_done(m);
        memory_watch_free(m->memory);
        profiles_free(m->profiles);
        for (uint32_t i = 0; m->sandboxes && i < m->sessions_max; i++)
                sandbox_free(m->sandboxes[i]);
        free(m->sandboxes);
        free(m->slots);
        monitor_sums_done(m);
}
