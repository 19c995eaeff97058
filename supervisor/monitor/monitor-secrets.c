/* Reads the secrets of profiles. */
#include "supervisor/monitor/monitor-secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/places.h"
#include "base/printable.h"
#include "policy/config/keys.h"
#include "policy/config/secret-keys.h"
#include "policy/config/server.h"
#include "supervisor/monitor/monitor-inject.h"
#include "supervisor/monitor/monitor-link.h"
#include "supervisor/monitor/monitor-state.h"

enum {
        READINGS_MAX = 8 * CONFIG_PROFILES_MAX,
        VARIABLE_MAX = 64 * 1024, /* a longer one is refused by cloister-access */
        ENTRY_MAX = 120 * 1024,   /* of one variable (MAX_ARG_STRLEN) */
        ERRORS_MAX = 4096,
        COMMAND_SECONDS = 10,
        OTHER_SECONDS = 15,
};

enum reading_state { READING_HELD, READING_RUNS, READING_DONE, READING_FAILED };

/* The secrets of one profile of one generation of the config. */
struct reading {
        struct reading *next;
        struct monitor *monitor;
        enum reading_state state;
        uint32_t generation, profile;
        bool injects; /* those with "to", for a cloister-inject */
        int control;  /* the broker's end of its socket, until it is ready; or -1 */
        struct upstream *upstream;
        pid_t pid;
        struct cgroup *cgroup; /* or NULL */
        struct event *exec, *end, *readable, *ready;
        int errors;
        bool is_late;
        struct buffer text; /* the end of what it wrote to standard error */
        monitor_secrets_again_fn *again;
        struct monitor_request *waiting;
        size_t n_waiting;
};

static const char *lookup(const char *name)
{
        return getenv(name);
}

static const struct config_values values = {lookup, credential_read};

/* ---- the process ---- */

/* The variables with which cloister-access is started. */
struct launch {
        struct buffer entries;
        struct json_out out;
        char *variables[CONFIG_SECRETS_MAX + 2];
        size_t n;
};

static void launch_done(struct launch *l)
{
        for (size_t i = 0; i < l->n; i++) {
                explicit_bzero(l->variables[i], strlen(l->variables[i]));
                free(l->variables[i]);
        }
        buffer_done(&l->entries);
}

static int add_value(struct launch *l, const char *value)
{
        char name[32];

        snprintf(name, sizeof(name), "CLOISTER_SECRET_%zu", l->n);
        if (asprintf(&l->variables[l->n], "%s=%.*s", name, VARIABLE_MAX + 1, value) < 0)
                return -ENOMEM;
        l->n++;
        json_out_text(&l->out, "variable", name);
        return 0;
}

static int add_expanded(struct launch *l, const char *key, const char *text, struct error *why)
{
        char *expanded = NULL;

        int r = config_expand(text, key, &values, &expanded, why);
        if (r >= 0)
                json_out_text(&l->out, key, expanded);
        free(expanded);
        return r;
}

static int add_source(struct launch *l, const struct config_secret_from *from, struct error *why)
{
        char *value = NULL;
        int r = 0;

        if (from->env) {
                const char *text = getenv(from->env);
                return text ? add_value(l, text)
                            : error_set(why, ENOENT, "the variable %s is not set", from->env);
        }
        if (from->file)
                return add_expanded(l, "file", from->file, why);
        if (from->credential) {
                r = credential_read(from->credential, &value, why);
                if (r < 0)
                        return r;
                r = add_value(l, value);
                explicit_bzero(value, strlen(value));
                free(value);
                return r;
        }
        json_out_begin(&l->out, "command", '[');
        for (char *const *word = from->command; *word && r >= 0; word++)
                r = add_expanded(l, NULL, *word, why);
        json_out_end(&l->out, ']');
        return r;
}

/* A secret without a value is one with a problem: cloister-access reports its name. */
static int add_secret(struct launch *l, const struct config_secret *secret)
{
        struct error why = {};

        json_out_begin(&l->out, NULL, '{');
        json_out_text(&l->out, "name", secret->name);
        int r = add_source(l, &secret->from, &why);
        if (r < 0 && error_is_set(&why)) {
                json_out_text(&l->out, "problem", why.text);
                r = 0;
        }
        json_out_end(&l->out, '}');
        return r < 0 ? r : l->out.error;
}

static int prepare(struct launch *l, const struct config_profile *profile, bool injects)
{
        buffer_init(&l->entries, ENTRY_MAX);
        l->out = (struct json_out){.to = &l->entries};
        json_out_begin(&l->out, NULL, '[');
        int r = 0;
        for (size_t i = 0; i < profile->n_secrets && r >= 0; i++)
                if (!profile->secrets[i].to == !injects)
                        r = add_secret(l, &profile->secrets[i]);
        json_out_end(&l->out, ']');
        if (r >= 0)
                r = l->out.error < 0 ? l->out.error : buffer_append(&l->entries, "", 1);
        if (r >= 0 &&
            asprintf(&l->variables[l->n], "CLOISTER_SECRETS=%s", buffer_bytes(&l->entries)) < 0)
                r = -ENOMEM;
        l->n += r >= 0;
        return r;
}

static int launch(struct reading *g, struct launch *l, int fds[3], struct error *err)
{
        struct monitor *m = g->monitor;
        int r = prepare(l, &m->config->profiles[g->profile], g->injects);
        const struct config_server program = {.name = (char *)"secrets",
                                              .command = m->access_program,
                                              .env = l->variables,
                                              .n_env = l->n};

        return r < 0 ? error_errno(err, -r, "start")
                     : upstream_start(&program, &m->user, -1, &g->upstream, fds, err);
}

/* ---- the end ---- */

static void forget_reader(struct reading *g)
{
        loop_free_events((struct event *[]){g->exec, g->end, g->readable}, 3);
        g->exec = g->end = g->readable = NULL;
        if (g->errors >= 0)
                close(take_fd(g->errors));
        if (g->pid > 0)
                children_remove(g->monitor->children, g->pid);
        g->pid = 0;
        g->upstream = upstream_free(g->upstream);
        g->cgroup = cgroup_free(g->cgroup);
}

static void forget_process(struct reading *g)
{
        forget_reader(g);
        loop_event_free(&g->ready);
        fd_close_many(&g->control, 1);
}

static struct reading *reading_free(struct reading *g)
{
        struct reading **at = &g->monitor->secrets;

        while (*at != g)
                at = &(*at)->next;
        *at = g->next;
        forget_process(g);
        buffer_done(&g->text);
        free(g->waiting);
        free(g);
        return NULL;
}

/* Answers the requests that wait. They are of an older config if it was read again meanwhile. */
static void finish(struct reading *g, const struct error *error)
{
        struct monitor *m = g->monitor;
        struct monitor_request *waiting = take_ptr(g->waiting);
        size_t n = g->n_waiting;
        monitor_secrets_again_fn *again = g->again;
        bool is_stale = g->generation != m->generation;
        struct error named = {};

        g->n_waiting = 0;
        g->state = error ? READING_FAILED : READING_DONE;
        forget_process(g);
        if (is_stale)
                error_set(&named, ESTALE, "the config was reloaded");
        else if (error) {
                named = *error;
                error_context(&named, "profile \"%s\"", m->config->profiles[g->profile].name);
                /* 'cloister run' prints it as the result of its code. */
                if (m->options->mode != MODE_RUN || n == 0)
                        log_error("%s", named.text);
        }
        if (is_stale)
                reading_free(g);
        for (size_t i = 0; i < n; i++) {
                if (error_is_set(&named))
                        monitor_send_failed(m, waiting[i].serial, &named);
                else
                        again(m, &waiting[i]);
        }
        free(waiting);
}

static void take_errors(struct reading *g)
{
        ssize_t n;

        do {
                if (g->text.length > ERRORS_MAX / 2)
                        buffer_consume(&g->text, g->text.length - ERRORS_MAX / 2);
                n = buffer_read_fd(&g->text, g->errors, ERRORS_MAX / 2);
        } while (n > 0);
        if (n != -EAGAIN && g->readable)
                event_del(g->readable);
}

/* The last line, as text for a person. */
static void tell(struct reading *g, struct error *error)
{
        char line[400];

        take_errors(g);
        if (g->text.length == 0 || buffer_append(&g->text, "", 1) < 0) {
                error_set(error, EIO, "its secrets could not be read: cloister-access ended");
                return;
        }
        char *text = buffer_bytes(&g->text);
        for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
                text[n - 1] = '\0';
        const char *last = strrchr(text, '\n');
        printable_escape(line, sizeof(line), last ? last + 1 : text);
        error_set(error, EINVAL, "%s", line);
}

static void on_errors(evutil_socket_t fd, short what, void *data)
{
        take_errors(data);
}

/* Its first message stays for the broker. */
static void on_ready(evutil_socket_t fd, short what, void *data)
{
        struct reading *g = data;
        struct error error = {};
        char byte;

        if (what & EV_TIMEOUT)
                error_set(&error, ETIMEDOUT, "cloister-inject did not start in time");
        else if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
                error_set(&error, ECHILD,
                          "its secrets cannot be used: the log has the reason of cloister-inject");
        else if (g->generation == g->monitor->generation)
                monitor_send(g->monitor,
                             &(struct monitor_event){.kind = MONITOR_INJECT_STARTED,
                                                     .target = g->profile},
                             &g->control, 1);
        finish(g, error_is_set(&error) ? &error : NULL);
}

static void await_ready(struct reading *g)
{
        const struct timeval most = {.tv_sec = OTHER_SECONDS};
        struct error error = {};

        g->ready = event_new(g->monitor->base, g->control, EV_READ, on_ready, g);
        if (g->ready && event_add(g->ready, &most) == 0)
                return;
        error_errno(&error, ENOMEM, "watch");
        finish(g, &error);
}

static void on_end(evutil_socket_t fd, short what, void *data)
{
        struct reading *g = data;
        struct error error = {};

        int r = upstream_exec_result(g->upstream, &error);
        int status = upstream_reap(g->upstream);
        if (g->is_late) {
                error = (struct error){};
                error_set(&error, ETIMEDOUT, "its secrets could not be read in time");
        } else if (r >= 0 && status != 0) {
                tell(g, &error);
        }
        if (g->injects && !error_is_set(&error)) {
                forget_reader(g);
                await_ready(g);
                return;
        }
        finish(g, error_is_set(&error) ? &error : NULL);
}

/* The end of the process is awaited, which on_end() tells. */
static void on_time(evutil_socket_t fd, short what, void *data)
{
        struct reading *g = data;

        g->is_late = true;
        upstream_kill(g->upstream);
}

/* ---- the start ---- */

static int watch(struct reading *g, struct error *err)
{
        const struct config_profile *profile = &g->monitor->config->profiles[g->profile];
        struct timeval most = {.tv_sec = OTHER_SECONDS};
        struct event_base *base = g->monitor->base;

        for (size_t i = 0; i < profile->n_secrets; i++)
                most.tv_sec += profile->secrets[i].from.command ? COMMAND_SECONDS : 0;
        g->exec = evtimer_new(base, on_time, g);
        g->end = event_new(base, upstream_pidfd(g->upstream), EV_READ, on_end, g);
        g->readable = event_new(base, g->errors, EV_READ | EV_PERSIST, on_errors, g);
        if (!g->exec || !g->end || !g->readable || event_add(g->exec, &most) < 0 ||
            event_add(g->end, NULL) < 0 || event_add(g->readable, NULL) < 0 ||
            children_add(g->monitor->children, upstream_pid(g->upstream)) < 0)
                return error_errno(err, ENOMEM, "watch");
        g->pid = upstream_pid(g->upstream);
        /* The group of servers exists only if there are some (monitor-sums.c). */
        if (cgroups_version(g->monitor->cgroups) == CGROUP_NONE ||
            g->monitor->config->n_servers == 0)
                return 0;
        int r = cgroup_new_server(g->monitor->cgroups, &g->cgroup, err);
        return r < 0 ? r : cgroup_add(g->cgroup, g->pid, err);
}

static size_t count(const struct monitor *m)
{
        size_t n = 0;

        for (const struct reading *g = m->secrets; g; g = g->next)
                n++;
        return n;
}

/* The next session of the profile has them read again. */
static void inject_ended(struct monitor *m, uint32_t generation, uint32_t profile)
{
        for (struct reading *g = m->secrets, *next; g; g = next) {
                next = g->next;
                if (g->injects && g->generation == generation && g->profile == profile &&
                    g->state == READING_DONE)
                        reading_free(g);
        }
}

static void start(struct reading *g)
{
        struct launch l = {};
        struct error error = {};
        int fds[3] = {-1, -1, -1};
        const struct monitor_event event = {.kind = MONITOR_SECRETS_READ, .target = g->profile};

        int r = launch(g, &l, fds, &error);
        launch_done(&l);
        if (r >= 0) {
                g->errors = fds[2];
                fds[2] = -1;
                r = watch(g, &error);
        }
        if (r >= 0 && g->injects)
                r = monitor_inject_start(g->monitor, g->profile, fds[1], inject_ended, &g->control,
                                         &error);
        if (r >= 0) {
                g->state = READING_RUNS;
                if (!g->injects)
                        monitor_send(g->monitor, &event, &fds[1], 1);
                upstream_release(g->upstream);
        }
        fd_close_many(fds, ARRAY_SIZE(fds));
        if (r < 0) {
                error_context(&error, "its secrets could not be read");
                finish(g, &error);
        }
}

/* ---- requests ---- */

static struct reading *find(const struct monitor *m, uint32_t profile, bool injects)
{
        for (struct reading *g = m->secrets; g; g = g->next)
                if (g->generation == m->generation && g->profile == profile &&
                    g->injects == injects)
                        return g;
        return NULL;
}

static bool has_secret(const struct config_profile *profile, bool injects)
{
        if (injects)
                return config_has_injected(profile);
        for (size_t i = 0; i < profile->n_secrets; i++)
                if (!profile->secrets[i].to)
                        return true;
        return false;
}

static struct reading *reading_new(struct monitor *m, uint32_t profile, bool injects,
                                   monitor_secrets_again_fn *again)
{
        struct reading *g = count(m) < READINGS_MAX ? calloc(1, sizeof(*g)) : NULL;

        if (!g)
                return NULL;
        *g = (struct reading){.next = m->secrets,
                              .monitor = m,
                              .generation = m->generation,
                              .profile = profile,
                              .injects = injects,
                              .control = -1,
                              .errors = -1,
                              .text = BUFFER_INIT(ERRORS_MAX + 1),
                              .again = again};
        m->secrets = g;
        return g;
}

static int add_waiting(struct reading *g, const struct monitor_request *request)
{
        struct monitor_request *grown;

        if (g->n_waiting == g->monitor->sessions_max)
                return -EAGAIN;
        grown = reallocarray(g->waiting, g->n_waiting + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        g->waiting = grown;
        grown[g->n_waiting++] = *request;
        return 0;
}

/* Of one of the two kinds. */
static bool hold(struct monitor *m, const struct monitor_request *request, bool injects,
                 monitor_secrets_again_fn *again)
{
        struct reading *g = find(m, request->target, injects);
        struct error error = {};

        if (!has_secret(&m->config->profiles[request->target], injects) ||
            (g && g->state == READING_DONE))
                return false;
        if (g && g->state == READING_FAILED)
                g = reading_free(g);
        bool is_new = !g;
        if (is_new)
                g = reading_new(m, request->target, injects, again);
        int r = g ? add_waiting(g, request) : -ENOMEM;
        if (r < 0) {
                error_errno(&error, -r, "wait for the secrets of the profile");
                monitor_send_failed(m, request->serial, &error);
        }
        if (is_new && g && m->scope_pid <= 0)
                start(g);
        return true;
}

bool monitor_secrets_hold(struct monitor *m, const struct monitor_request *request,
                          monitor_secrets_again_fn *again)
{
        return request->target < m->config->n_profiles &&
               (hold(m, request, false, again) || hold(m, request, true, again));
}

void monitor_secrets_bounds_known(struct monitor *m)
{
        for (struct reading *g = m->secrets, *next; g; g = next) {
                next = g->next;
                if (g->state == READING_HELD && g->generation == m->generation)
                        start(g);
        }
}

void monitor_secrets_forget(struct monitor *m)
{
        for (struct reading *g = m->secrets, *next; g; g = next) {
                struct error error = {};
                next = g->next;
                if (g->state == READING_DONE || g->state == READING_FAILED)
                        reading_free(g);
                else if (g->state == READING_HELD && g->generation != m->generation)
                        finish(g, &error);
        }
}

void monitor_secrets_done(struct monitor *m)
{
        while (m->secrets) {
                struct reading *g = m->secrets;
                if (g->upstream)
                        upstream_stop(g->upstream);
                /* The reaper outlives the monitor and ends its tree. */
                g->upstream = NULL;
                g->cgroup = NULL;
                reading_free(g);
        }
}
