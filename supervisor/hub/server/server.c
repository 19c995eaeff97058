/* One upstream server: its parts, and the events that concern more than one of them. */
#include "supervisor/hub/server/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/utf8.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/hub/call/answer.h"
#include "supervisor/hub/call/caller.h"
#include "supervisor/hub/server/messages.h"
#include "supervisor/secrets/mask.h"

/* ---- states ---- */

enum {
        FREE_FAILURES = 3, /* starts in a row that may fail before there is a delay */
        DELAY_MAX_MS = 60000,
};

static const char *const state_names[] = {
        [SERVER_STOPPED] = "stopped",     [SERVER_STARTING] = "starting",
        [SERVER_HANDSHAKE] = "handshake", [SERVER_LISTING] = "listing",
        [SERVER_READY] = "ready",         [SERVER_ENDING] = "ending",
        [SERVER_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_names) == SERVER_STATE_MAX, "a name for each state");

static void set_state(struct hub_server *s, enum server_state state)
{
        log_debug("server %s: %s -> %s", s->config->name, state_names[s->state],
                  state_names[state]);
        s->state = state;
        s->host->changed(s->host->data);
}

static void set_deadline(struct hub_server *s, unsigned ms)
{
        struct timeval in = clock_timeval_ms(ms);

        event_add(&s->deadline, &in);
}

static const char *name_of(void *data)
{
        return ((struct hub_server *)data)->config->name;
}

const char *hub_server_unusable(const struct hub_server *s)
{
        if (s->config->problem)
                return s->config->problem;
        if (s->config->disabled)
                return "disabled in the config";
        return NULL;
}

bool hub_server_is_starting(const struct hub_server *s)
{
        return s->state == SERVER_STARTING || s->state == SERVER_HANDSHAKE ||
               s->state == SERVER_LISTING;
}

/* The process, or one of its pipes, has ended: only the rest of its output is awaited. */
static bool is_ending(const struct hub_server *s)
{
        return s->connection.transport && (s->has_ended || !connection_has_input(&s->connection) ||
                                           !connection_has_output(&s->connection));
}

/* The line of stderr that best explains a failure, as the end of a message; or "". The message may reach every client, so
 * that it does not quote a process which has worked for a principal with a name, or may have a secret: only the log does. */
static void describe_stderr(struct hub_server *s, char *to, size_t size)
{
        const char *line = connection_last_stderr(&s->connection);
        /* The line may have been cut inside a value. */
        bool has_secrets = secret_mask_is_for(s->host->owner->mask, s->config->name);

        to[0] = '\0';
        if (line[0] && (has_secrets || (s->calls.books.is_private && !s->principal)))
                log_warning("server %s: its stderr says: %s", s->config->name, line);
        else if (line[0])
                snprintf(to, size, "; its stderr says: %s", line);
}

/* Forgets the process; the monitor ends it, and what it then reports is ignored. */
static void release(struct hub_server *s)
{
        event_del(&s->deadline);
        event_del(&s->roots_due);
        event_del(&s->restart_due);
        books_clear(&s->calls.books);
        listing_stop(&s->listing);
        handshake_stop(&s->handshake);
        questions_withdraw_all(&s->questions);
        s->log_level = 0;
        connection_close(&s->connection);
        if (s->has_instance && !s->has_ended)
                s->host->owner->stop(s->host->owner->data, s->instance);
        s->has_instance = false;
}

static unsigned retry_delay_ms(unsigned failures)
{
        if (failures < FREE_FAILURES)
                return 0;
        unsigned shift = failures - FREE_FAILURES;
        return shift >= 6 ? DELAY_MAX_MS : 1000U << shift;
}

/* Ends it as FAILED; all its calls fail. */
static void fail(struct hub_server *s, const struct error *err)
{
        char message[sizeof(err->text)];

        s->error = *err;
        s->failures++;
        s->failed_at = clock_us();
        s->retry_at = s->failed_at + retry_delay_ms(s->failures) * 1000ULL;
        log_warning("server %s: %s", s->config->name, s->error.text);
        release(s);
        set_state(s, SERVER_FAILED);
        snprintf(message, sizeof(message), "server \"%s\": %s", s->config->name, s->error.text);
        hub_calls_fail(&s->calls, true, message);
}

/* Fails with a message, to which the last line of stderr is appended. */
static void failf(struct hub_server *s, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static void failf(struct hub_server *s, const char *format, ...)
{
        struct error err = {};
        char what[sizeof(err.text)], last_line[320];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        describe_stderr(s, last_line, sizeof(last_line));
        error_set(&err, EIO, "%s%s", what, last_line);
        fail(s, &err);
}

/* How it ended, as a predicate. */
static void describe_end(const struct hub_server *s, char *to, size_t size)
{
        int status = s->wait_status;

        if (!s->has_ended)
                snprintf(to, size, "closed its %s",
                         connection_has_output(&s->connection) ? "input" : "output");
        else if (WIFSIGNALED(status))
                snprintf(to, size, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)) ?: "?");
        else
                snprintf(to, size, "ended with exit status %d", WEXITSTATUS(status));
}

/* The config's timeout is for all until the tools are known. */
static unsigned timeout_ms(const struct hub_server *s, unsigned otherwise)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : otherwise;
}

static void set_start_deadline(struct hub_server *s)
{
        uint64_t now = clock_us();

        set_deadline(s, s->start_by > now ? (unsigned)((s->start_by - now) / 1000) : 0);
}

/* Asks the monitor; start_by is set. */
static void ask_monitor(struct hub_server *s)
{
        s->error = (struct error){};
        s->has_ended = false;
        set_state(s, SERVER_STARTING);
        set_start_deadline(s);
        s->host->owner->start(s->host->owner->data, s->index);
}

static void start(struct hub_server *s)
{
        assert(s->state == SERVER_STOPPED || s->state == SERVER_FAILED);
        s->start_by = clock_us() + timeout_ms(s, SERVER_START_MS) * 1000ULL;
        ask_monitor(s);
}

/* Ends the process because of its fault (why: a predicate), and requests another. The deadline of the start
 * stays, and the calls wait. */
static void restart(void *data, const char *why)
{
        struct hub_server *s = data;

        log_info("server %s: %s; it is started again", s->config->name, why);
        release(s);
        ask_monitor(s);
}

/* Programs that change their user, and cannot in a user namespace, print one of these words. */
static bool must_not_be_apart(struct hub_server *s)
{
        static const char *const words[] = {"setuid",     "suid",       "uid 0",       "euid",
                                            "newuidmap",  "newgidmap",  "uid_map",     "gid_map",
                                            "fusermount", "user names", "snap-confine"};
        const char *line = connection_last_stderr(&s->connection);

        for (size_t i = 0; s->config->apart && i < ARRAY_SIZE(words); i++) {
                if (strstr(line, words[i]))
                        return true;
        }
        return false;
}

/* All its output was read, or awaited long enough. */
static void conclude(struct hub_server *s)
{
        char how[64], last_line[320], message[sizeof(s->error.text)];

        describe_end(s, how, sizeof(how));
        if (handshake_ended(&s->handshake)) {
                restart(s, how);
                return;
        }
        if (hub_server_is_starting(s)) {
                failf(s, "%s while it was starting%s", how,
                      must_not_be_apart(s)
                              ? " in namespaces of its own: set \"apart\": false for this server"
                              : "");
                return;
        }
        describe_stderr(s, last_line, sizeof(last_line));
        log_warning("server %s: %s; it is started again when it is needed%s", s->config->name, how,
                    last_line);
        snprintf(message, sizeof(message), "server \"%s\" %s during the call%s", s->config->name,
                 how, last_line);
        release(s);
        set_state(s, SERVER_STOPPED);
        hub_calls_fail(&s->calls, false, message);
        if (!TAILQ_EMPTY(&s->calls.waiting))
                start(s);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        if (is_ending(s)) {
                conclude(s);
        } else if (s->state == SERVER_LISTING) {
                failf(s, "did not list its tools within %g s",
                      timeout_ms(s, SERVER_LIST_MS) / 1000.0);
        } else if (hub_server_is_starting(s)) {
                const char *awaited = handshake_awaits(&s->handshake);
                handshake_expired(&s->handshake);
                failf(s, "did not answer %s within %g s", awaited,
                      timeout_ms(s, SERVER_START_MS) / 1000.0);
        } else {
                listing_expired(&s->listing);
        }
}

/* No answer is awaited any more. */
static void clear_deadline(struct hub_server *s)
{
        /* A server that is ending needs its deadline. */
        if (!is_ending(s))
                event_del(&s->deadline);
}

/*
 * ---- the tools in the cache, for the next process of ours ----
 *
 * Many servers list other tools when the client can be asked for something. So the capabilities of the
 * client are part of the key under which the list is kept.
 */

static uint64_t key_of(const struct hub_server *s, unsigned can)
{
        return s->config->key ^ can * UINT64_C(0x9e3779b97f4a7c15);
}

static void save(struct hub_server *s)
{
        const struct hub_cache_entry entry = {s->tools, s->instructions, s->handshake.era};
        int r = hub_cache_save(s->host->cache_dir, key_of(s, s->declared), &entry);

        if (r < 0)
                log_info("server %s: cannot cache its tools: %s", s->config->name,
                         strerrordesc_np(-r));
}

static void take_cached(struct hub_server *s)
{
        struct hub_cache_entry entry = {};
        uint64_t key = key_of(s, s->host->can);

        if (hub_cache_load(s->host->cache_dir, key, s->config->name, &entry) != 1)
                return;
        s->tools = entry.tools;
        s->instructions = entry.instructions;
        handshake_set_era(&s->handshake, entry.era);
}

void hub_server_client_changed(struct hub_server *s)
{
        if ((s->state != SERVER_STOPPED && s->state != SERVER_FAILED) || hub_server_unusable(s))
                return;
        s->tools = hub_tools_free(s->tools);
        free(s->instructions);
        s->instructions = NULL;
        take_cached(s);
        s->host->changed(s->host->data);
}

/* ---- calls ---- */

static bool has_tool(void *data, const char *tool)
{
        return hub_tools_has(((struct hub_server *)data)->tools, tool);
}

static bool needs_task(void *data, const char *tool)
{
        const struct hub_server *s = data;

        return s->has_tasks && hub_tools_needs_task(s->tools, tool);
}

static bool is_modern(void *data)
{
        return ((struct hub_server *)data)->handshake.speaks == HUB_ERA_MODERN;
}

static bool has_method(void *data, const char *method)
{
        const struct hub_server *s = data;
        const struct hub_method *found = hub_method_find(method);

        return found && (found->needs_prompts ? s->has_prompts : s->has_resources);
}

/* A legacy server gets the level of its log messages once, and again when a client requires more. */
static void set_log_level(struct hub_server *s, const char *level)
{
        static const char *const levels[] = {"emergency", "alert",  "critical", "error",
                                             "warning",   "notice", "info",     "debug"};
        char params[64];

        for (int i = 0; i < (int)ARRAY_SIZE(levels); i++) {
                if (strcmp(levels[i], level) != 0 || i < s->log_level)
                        continue;
                s->log_level = i + 1;
                int n = snprintf(params, sizeof(params), "{\"level\":\"%s\"}", level);
                connection_request(&s->connection, "logging/setLevel", params, (size_t)n);
        }
}

static int64_t send_request(void *data, const char *method, const struct hub_client *client,
                            const struct call_params *params)
{
        struct hub_server *s = data;
        bool is_tool = strcmp(method, "tools/call") == 0;
        const struct connection_call call = {
                .can = client->can,
                .log_level = client->log_level,
                .takes_tasks = is_tool,
                .principal = client->principal,
                .trace = client->trace,
        };

        if (!is_tool && !hub_method_find(method))
                return connection_request(&s->connection, method, buffer_bytes(&params->bytes),
                                          params->bytes.length);
        if (call.log_level && s->has_logging && !is_modern(s))
                set_log_level(s, call.log_level);
        return connection_call(&s->connection, method, &call, params);
}

static int64_t cancel_call(void *data, int64_t id, const char *task, const char *reason)
{
        struct hub_server *s = data;

        if (task && (s->cancels_tasks || is_modern(s))) {
                int64_t r = connection_request(&s->connection, "tasks/cancel", task, strlen(task));
                return r > 0 ? r : 0;
        }
        return id == 0 || connection_cancel(&s->connection, id, reason) ? 0 : -1;
}

/* Calls add() for each argument that the tool of the call wants as an HTTP header. */
static void mirror(void *data, yyjson_val *params,
                   void (*add)(void *to, const char *name, const char *value, size_t n), void *to)
{
        const struct hub_server *s = data;
        const char *tool = json_string(params, "name", NULL);

        if (tool && s->tools)
                hub_tools_mirror(s->tools, tool, yyjson_obj_get(params, "arguments"), add, to);
}

static void respond(void *data, yyjson_val *id, const char *result, const char *why)
{
        connection_respond(&((struct hub_server *)data)->connection, id, result, why);
}

/* A message was refused because of a call that the server has not answered (hub/call/books.h). */
static void on_refused(void *data)
{
        event_active(&((struct hub_server *)data)->restart_due, EV_TIMEOUT, 0);
}

static void on_restart_due(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;
        uint64_t now = clock_us(), at = books_restart_at(&s->calls.books);

        if (at > 0 && s->restarted_at > 0 && at < s->restarted_at + SERVER_RESTART_US)
                at = s->restarted_at + SERVER_RESTART_US;
        if (s->state != SERVER_READY || at == 0)
                return;
        if (at > now) {
                const struct timeval in = clock_timeval_ms((at - now + 999) / 1000);
                event_add(&s->restart_due, &in);
                return;
        }
        /* Otherwise the end of the last call reports it. */
        if (s->calls.count > 0)
                return;
        log_warning("server %s: " HUB_RESTART_REASON "; it is started again", s->config->name);
        s->n_restarts++;
        s->restarted_at = now;
        s->start_by = now + timeout_ms(s, SERVER_START_MS) * 1000ULL;
        release(s);
        ask_monitor(s);
}

static const struct hub_calls_host calls_host = {
        .name = name_of,
        .has_tool = has_tool,
        .has_method = has_method,
        .needs_task = needs_task,
        .is_modern = is_modern,
        .send = send_request,
        .cancel = cancel_call,
        .respond = respond,
        .refused = on_refused,
};

void hub_server_call(struct hub_server *s, struct hub_call *call)
{
        const char *unusable = hub_server_unusable(s), *name = s->config->name;
        uint64_t now = clock_us();

        if (unusable) {
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE, "server \"%s\": %s", name,
                                unusable);
                return;
        }
        if (s->calls.count >= CALLS_MAX) {
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE,
                                "server \"%s\" has %d calls in flight already", name, CALLS_MAX);
                return;
        }
        /* A server that listens says itself when its tools change. */
        if (s->state == SERVER_READY && !s->handshake.listens)
                listing_used(&s->listing);
        if (s->state == SERVER_READY)
                hub_calls_send(&s->calls, call);
        else if (s->state == SERVER_FAILED && now < s->retry_at)
                hub_call_finish(call, EVENT_FAILED, HUB_UNAVAILABLE,
                                "server \"%s\": %s (tried %u times, again in %llu s)", name,
                                s->error.text, s->failures,
                                (unsigned long long)((s->retry_at - now + 999999) / 1000000));
        else if (hub_calls_queue(&s->calls, call) &&
                 (s->state == SERVER_STOPPED || s->state == SERVER_FAILED))
                start(s);
}

static void on_roots_due(evutil_socket_t fd, short what, void *data)
{
        static const char method[] = "notifications/roots/list_changed";
        struct hub_server *s = data;

        if (s->state == SERVER_READY)
                connection_notify(&s->connection, method, NULL, 0);
}

void hub_server_roots_changed(struct hub_server *s)
{
        const struct timeval in = clock_timeval_ms(SERVER_ROOTS_MS);

        /* MCP 2026-07-28 has no such notification. */
        if (s->state == SERVER_READY && s->declared & CLIENT_TELLS_ROOTS &&
            s->handshake.speaks == HUB_ERA_LEGACY && !evtimer_pending(&s->roots_due, NULL))
                event_add(&s->roots_due, &in);
}

/* ---- what the parts report ---- */

static void on_cut(void *data)
{
        struct hub_server *s = data;

        if (s->has_ended) {
                conclude(s);
                return;
        }
        if (s->state == SERVER_READY)
                set_state(s, SERVER_ENDING);
        /* Its exit status says more. A server that closed its pipes but runs on is of no use. */
        set_deadline(s, SERVER_END_MS);
}

static void on_failed(void *data, const char *why)
{
        _cleanup_buffer_ struct buffer masked = BUFFER_INIT(LINES_MAX);

        failf(data, "%s", hub_server_masked(data, why, &masked));
}

static void on_no_memory(void *data)
{
        on_failed(data, "needs more memory for its output than there is");
}

/* A server that began a new session may be another version of itself. */
static void on_tools_changed(void *data)
{
        listing_changed(&((struct hub_server *)data)->listing);
}

static const struct connection_host connection_host = {
        .name = name_of,
        .line = hub_server_on_line,
        .parsed = hub_server_on_large,
        .late = hub_server_on_late,
        .oversized = hub_server_on_oversized,
        .cut = on_cut,
        .no_memory = on_no_memory,
        .refused = hub_server_on_refused,
        .unanswered = hub_server_on_unanswered,
        .failed = on_failed,
        .mirror = mirror,
        .reopened = on_tools_changed,
};

static void on_listed(void *data, struct hub_tools *tools);

static void list_tools(struct hub_server *s)
{
        bool is_first = s->state == SERVER_HANDSHAKE;

        if (is_first)
                set_state(s, SERVER_LISTING);
        /* A server that does not declare tools is not asked for them ("Capability Negotiation"). */
        if (!s->has_tools) {
                struct hub_tools *none = hub_tools_new();
                if (none)
                        on_listed(s, none);
                else
                        on_no_memory(s);
                return;
        }
        if (!is_ending(s)) {
                if (is_first && s->config->start_timeout_ms)
                        set_start_deadline(s);
                else
                        set_deadline(s, SERVER_LIST_MS);
        }
        listing_start(&s->listing, s->handshake.speaks == HUB_ERA_MODERN);
}

static void on_handshake_done(void *data, const char *instructions, size_t n,
                              yyjson_val *capabilities)
{
        struct hub_server *s = data;

        hub_server_take_capabilities(s, capabilities);
        free(s->instructions);
        s->instructions = NULL;
        if (n > 0)
                s->instructions = strndup(instructions,
                                          utf8_cut(instructions, n, HUB_INSTRUCTIONS_MAX));
        list_tools(s);
}

static const struct handshake_host handshake_host = {
        .done = on_handshake_done,
        .tools_changed = on_tools_changed,
        .can = hub_server_client_can,
        .failed = on_failed,
        .restart = restart,
};

static void on_list_due(void *data)
{
        struct hub_server *s = data;

        if (s->state == SERVER_READY)
                list_tools(s);
}

static void warn_of_left_out(struct hub_server *s)
{
        const char *why = NULL;
        size_t n = hub_tools_left_out(s->tools, &why);

        if (n > 0 && connection_may_warn(&s->connection))
                log_warning("server %s: %zu tools are left out; the first is %s", s->config->name,
                            n, why);
}

static void become_ready(struct hub_server *s)
{
        /* Not if it is ending: a server that ends right after its list would be started again and
         * again for the same waiting call. */
        if (is_ending(s))
                return;
        s->failures = 0;
        s->was_ready = true;
        set_state(s, SERVER_READY);
        /* The plain form is that of codemode-lite's log, with its words. */
        if (log_get_format() == LOG_FORMAT_PLAIN)
                log_info("SERVER LOADED | '%s' | %zu tools", s->config->name,
                         hub_tools_count(s->tools));
        else
                log_info("server %s: ready, %zu tools, %s", s->config->name,
                         hub_tools_count(s->tools), hub_era_name(s->handshake.speaks));
        /* No principal calls the process that has listed the tools. */
        if (s->config->per_principal && !s->principal) {
                release(s);
                set_state(s, SERVER_STOPPED);
        }
        hub_calls_send_waiting(&s->calls);
}

static void on_listed(void *data, struct hub_tools *tools)
{
        struct hub_server *s = data;
        bool is_new = !s->tools || !hub_tools_equal(s->tools, tools);

        clear_deadline(s);
        hub_tools_free(s->tools);
        s->tools = tools;
        /* The first list is saved even if nothing changed: the instructions may have. */
        if (is_new || s->state == SERVER_LISTING) {
                save(s);
                warn_of_left_out(s);
        }
        if (s->state == SERVER_LISTING)
                become_ready(s);
        hub_calls_listed(&s->calls, NULL);
        s->host->changed(s->host->data);
}

/* Without its first list a server is of no use; without a later one, the tools stay as they were. */
static void on_list_failed(void *data, const char *why)
{
        struct hub_server *s = data;

        if (s->state == SERVER_LISTING) {
                failf(s, "%s", why);
                return;
        }
        clear_deadline(s);
        if (connection_may_warn(&s->connection))
                log_warning("server %s: its tools stay as they were: it %s", s->config->name, why);
        hub_calls_listed(&s->calls, why);
}

static const struct listing_host listing_host = {
        .name = name_of,
        .due = on_list_due,
        .listed = on_listed,
        .failed = on_list_failed,
};

/* ---- what the hub and the monitor report ---- */

void hub_server_start_unasked(struct hub_server *s)
{
        uint64_t now = clock_us();

        if (s->config->per_principal && s->was_ready && s->tools)
                return;
        if (s->state == SERVER_STOPPED || (s->state == SERVER_FAILED && now >= s->retry_at &&
                                           now - s->failed_at >= SERVER_RETRY_UNASKED_MS * 1000ULL))
                start(s);
}

bool hub_server_started(struct hub_server *s, uint32_t instance, const int fds[3])
{
        /* Perhaps its deadline has passed, or this is the second answer to two requests. */
        if (s->state != SERVER_STARTING)
                return false;
        s->instance = instance;
        s->has_instance = true;
        s->declared = hub_server_client_can(s);
        if (s->config->transport == CONFIG_STDIO)
                connection_open(&s->connection, fds);
        else
                connection_open_http(&s->connection, fds, &s->host->http,
                                     s->config->transport == CONFIG_SSE);
        if (!s->connection.transport) {
                on_no_memory(s);
                return true;
        }
        set_state(s, SERVER_HANDSHAKE);
        handshake_begin(&s->handshake);
        return true;
}

bool hub_server_start_failed(struct hub_server *s, const struct error *error)
{
        if (s->state != SERVER_STARTING)
                return false;
        fail(s, error);
        return true;
}

bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status)
{
        if (!s->has_instance || s->has_ended || s->instance != instance)
                return false;
        s->has_ended = true;
        s->wait_status = wait_status;
        if (!connection_has_output(&s->connection)) {
                conclude(s);
                return true;
        }
        /* Answers that it wrote before its end may still be in the pipe. */
        if (s->state == SERVER_READY)
                set_state(s, SERVER_ENDING);
        set_deadline(s, SERVER_DRAIN_MS);
        return true;
}

const char *hub_server_name(const struct hub_server *s)
{
        return s->config->name;
}

bool hub_server_is_up(const struct hub_server *s)
{
        return s->state == SERVER_READY;
}

void hub_server_put(const struct hub_server *s, struct json_out *out)
{
        if (!s->has_instance && !s->principal && s->n_restarts == 0)
                return;
        json_out_begin(out, NULL, '{');
        json_out_text(out, "name", s->config->name);
        if (s->principal)
                json_out_text(out, "principal", s->principal);
        json_out_text(out, "state", state_names[s->state]);
        json_out_int(out, "calls", (int64_t)s->calls.count);
        if (s->n_restarts > 0) {
                json_out_int(out, "restarts", s->n_restarts);
                json_out_int(out, "restarted_ms", (int64_t)((clock_us() - s->restarted_at) / 1000));
                json_out_text(out, "reason", HUB_RESTART_REASON);
        }
        json_out_end(out, '}');
}

void hub_server_set_principal(struct hub_server *s, const char *principal,
                              const struct hub_server *of)
{
        s->principal = principal;
        handshake_set_era(&s->handshake, of->handshake.era);
}

void hub_server_set_config(struct hub_server *s, uint32_t index, const struct config_server *config)
{
        s->config = config;
        s->index = index;
}

void hub_server_ask_again(struct hub_server *s)
{
        if (s->state == SERVER_STARTING)
                s->host->owner->start(s->host->owner->data, s->index);
}

struct hub_server *hub_server_new(struct hub_server_host *host, uint32_t index,
                                  const struct config_server *config)
{
        struct hub_server *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->host = host;
        s->config = config;
        s->index = index;
        s->unnamed = (struct rate){.window_us = 1000000, .most = SERVER_UNNAMED_MAX};
        int r = connection_init(&s->connection, host->base, &connection_host, s);
        handshake_init(&s->handshake, host->base, &s->connection, &handshake_host, s);
        listing_init(&s->listing, host->base, &s->connection, &listing_host, s);
        s->questions = (struct questions){
                .base = host->base, .answered = hub_server_on_answered, .data = s};
        TAILQ_INIT(&s->questions.open);
        hub_calls_init(&s->calls, &calls_host, s);
        evtimer_assign(&s->deadline, host->base, on_deadline, s);
        evtimer_assign(&s->roots_due, host->base, on_roots_due, s);
        evtimer_assign(&s->restart_due, host->base, on_restart_due, s);
        if (r < 0)
                return hub_server_free(s);
        if (!hub_server_unusable(s))
                take_cached(s);
        return s;
}

struct hub_server *hub_server_free(struct hub_server *s)
{
        if (!s)
                return NULL;
        hub_calls_done(&s->calls);
        questions_withdraw_all(&s->questions);
        event_del(&s->deadline);
        event_del(&s->roots_due);
        event_del(&s->restart_due);
        listing_stop(&s->listing);
        handshake_done(&s->handshake);
        connection_done(&s->connection);
        hub_tools_free(s->tools);
        free(s->instructions);
        free(s);
        return NULL;
}

void hub_server_retire(struct hub_server *s, const char *why)
{
        char message[sizeof(s->error.text)];

        snprintf(message, sizeof(message), "server \"%s\" %s", s->config->name, why);
        release(s);
        hub_calls_fail(&s->calls, true, message);
        hub_server_free(s);
}
