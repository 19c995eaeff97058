/* One upstream server: its states, from the first call to its end. */
#include "supervisor/hub/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/server-internal.h"

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

        event_add(s->deadline, &in);
}

const struct config_server *hub_server_config(const struct hub_server *s)
{
        return s->config;
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

bool hub_server_is_ready(const struct hub_server *s)
{
        return s->state == SERVER_READY;
}

const char *hub_server_error(const struct hub_server *s)
{
        return s->state == SERVER_FAILED ? s->error.text : NULL;
}

const struct hub_tools *hub_server_tools(const struct hub_server *s)
{
        return s->tools;
}

const char *hub_server_instructions(const struct hub_server *s)
{
        return s->instructions;
}

/* The process, or one of its pipes, has ended: only the rest of its output is awaited. */
static bool is_ending(const struct hub_server *s)
{
        return connection_is_open(s->connection) &&
               (s->has_ended || !connection_has_input(s->connection) ||
                !connection_has_output(s->connection));
}

/* The line of stderr that best explains a failure, as the end of a message; or "". */
static void describe_stderr(struct hub_server *s, char *to, size_t size)
{
        const char *line = connection_last_stderr(s->connection);

        if (line[0])
                snprintf(to, size, "; its stderr says: %s", line);
        else
                to[0] = '\0';
}

/* Forgets the process; the monitor ends it, and what it then reports is ignored. */
static void release(struct hub_server *s)
{
        event_del(s->deadline);
        listing_stop(s->listing);
        handshake_stop(s->handshake);
        hub_server_drop_asks(s);
        s->log_level = 0;
        connection_close(s->connection);
        if (s->has_instance && !s->has_ended)
                s->host->stop(s->host->data, s->instance);
        s->has_instance = false;
}

static unsigned retry_delay_ms(unsigned failures)
{
        if (failures < FREE_FAILURES)
                return 0;
        unsigned shift = failures - FREE_FAILURES;
        return shift >= 6 ? DELAY_MAX_MS : 1000U << shift;
}

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
        hub_calls_fail_sent(s->calls, message);
        hub_calls_fail_waiting(s->calls, message);
}

void hub_server_failf(struct hub_server *s, const char *format, ...)
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
                         connection_has_output(s->connection) ? "input" : "output");
        else if (WIFSIGNALED(status))
                snprintf(to, size, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)) ?: "?");
        else
                snprintf(to, size, "ended with exit status %d", WEXITSTATUS(status));
}

static unsigned start_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : SERVER_START_MS;
}

/* The config's timeout is for all until the tools are known. */
static unsigned list_ms(const struct hub_server *s)
{
        return s->config->start_timeout_ms ? s->config->start_timeout_ms : SERVER_LIST_MS;
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
        s->host->start(s->host->data, s->index);
}

void hub_server_start(struct hub_server *s)
{
        assert(s->state == SERVER_STOPPED || s->state == SERVER_FAILED);
        s->start_by = clock_us() + start_ms(s) * 1000ULL;
        ask_monitor(s);
}

/* Ends the process, which is of no use because of what it did (why: a predicate), and asks for
 * another. The deadline of the start stays, and the calls wait. */
static void restart(struct hub_server *s, const char *why)
{
        log_info("server %s: %s; it is started again", s->config->name, why);
        release(s);
        ask_monitor(s);
}

/* All its output was read, or awaited long enough. */
static void conclude(struct hub_server *s)
{
        char how[64], last_line[320], message[sizeof(s->error.text)];

        describe_end(s, how, sizeof(how));
        if (handshake_ended(s->handshake)) {
                restart(s, how);
                return;
        }
        if (hub_server_is_starting(s)) {
                hub_server_failf(s, "%s while it was starting", how);
                return;
        }
        describe_stderr(s, last_line, sizeof(last_line));
        log_warning("server %s: %s; it is started again when it is needed%s", s->config->name, how,
                    last_line);
        snprintf(message, sizeof(message), "server \"%s\" %s during the call%s", s->config->name,
                 how, last_line);
        release(s);
        set_state(s, SERVER_STOPPED);
        hub_calls_fail_sent(s->calls, message);
        if (hub_calls_any_waiting(s->calls))
                hub_server_start(s);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct hub_server *s = data;

        (void)fd;
        (void)what;
        if (is_ending(s)) {
                conclude(s);
        } else if (s->state == SERVER_LISTING) {
                hub_server_failf(s, "did not list its tools within %g s", list_ms(s) / 1000.0);
        } else if (hub_server_is_starting(s)) {
                const char *awaited = handshake_awaits(s->handshake);
                handshake_expired(s->handshake);
                hub_server_failf(s, "did not answer %s within %g s", awaited, start_ms(s) / 1000.0);
        } else {
                listing_expired(s->listing);
        }
}

/* No answer is awaited any more. */
static void clear_deadline(struct hub_server *s)
{
        /* A server that is ending needs its deadline. */
        if (!is_ending(s))
                event_del(s->deadline);
}

/* ---- what the parts report ---- */

const char *hub_server_name(void *data)
{
        return ((struct hub_server *)data)->config->name;
}

static bool on_line(void *data, const char *line, size_t n)
{
        return hub_server_on_line(data, line, n);
}

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
        hub_server_failf(data, "%s", why);
}

static void on_no_memory(void *data)
{
        on_failed(data, "needs more memory for its output than there is");
}

/* A server that began a new session may be another version of itself. */
static void on_reopened(void *data)
{
        listing_changed(((struct hub_server *)data)->listing);
}

static const struct connection_host connection_host = {
        .name = hub_server_name,
        .line = on_line,
        .parsed = hub_server_on_large,
        .late = hub_server_on_late,
        .oversized = hub_server_on_oversized,
        .cut = on_cut,
        .no_memory = on_no_memory,
        .refused = hub_server_on_refused,
        .unanswered = hub_server_on_unanswered,
        .failed = on_failed,
        .mirror = hub_server_mirror,
        .reopened = on_reopened,
};

static void on_listed(void *data, struct hub_tools *tools);

/* A server that does not declare tools is not asked for them ("Capability Negotiation"). */
static void list_none(struct hub_server *s)
{
        struct hub_tools *none = hub_tools_new();

        if (!none) {
                on_no_memory(s);
                return;
        }
        hub_tools_seal(none);
        on_listed(s, none);
}

static void list_tools(struct hub_server *s)
{
        bool is_first = s->state == SERVER_HANDSHAKE;

        if (is_first)
                set_state(s, SERVER_LISTING);
        if (!s->has_tools) {
                list_none(s);
                return;
        }
        if (!is_ending(s)) {
                if (is_first && s->config->start_timeout_ms)
                        set_start_deadline(s);
                else
                        set_deadline(s, SERVER_LIST_MS);
        }
        listing_start(s->listing, handshake_speaks(s->handshake) == HUB_ERA_MODERN);
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

static void on_tools_changed(void *data)
{
        listing_changed(((struct hub_server *)data)->listing);
}

static void on_restart(void *data, const char *why)
{
        restart(data, why);
}

static const struct handshake_host handshake_host = {
        .done = on_handshake_done,
        .tools_changed = on_tools_changed,
        .can = hub_server_client_can,
        .failed = on_failed,
        .restart = on_restart,
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

        if (n > 0 && connection_may_warn(s->connection))
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
        set_state(s, SERVER_READY);
        log_info("server %s: ready, %zu tools, %s", s->config->name, hub_tools_count(s->tools),
                 hub_era_name(handshake_speaks(s->handshake)));
        hub_calls_send_waiting(s->calls);
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
                hub_server_save(s);
                warn_of_left_out(s);
        }
        if (s->state == SERVER_LISTING)
                become_ready(s);
        hub_calls_listed(s->calls, NULL);
        s->host->changed(s->host->data);
}

/* Without its first list a server is of no use; without a later one, the tools stay as they were. */
static void on_list_failed(void *data, const char *why)
{
        struct hub_server *s = data;

        if (s->state == SERVER_LISTING) {
                hub_server_failf(s, "%s", why);
                return;
        }
        clear_deadline(s);
        if (connection_may_warn(s->connection))
                log_warning("server %s: its tools stay as they were: it %s", s->config->name, why);
        hub_calls_listed(s->calls, why);
}

static const struct listing_host listing_host = {
        .name = hub_server_name,
        .due = on_list_due,
        .listed = on_listed,
        .failed = on_list_failed,
};

/* ---- what the hub and the monitor report ---- */

void hub_server_start_unasked(struct hub_server *s)
{
        uint64_t now = clock_us();

        if (s->state == SERVER_STOPPED || (s->state == SERVER_FAILED && now >= s->retry_at &&
                                           now - s->failed_at >= SERVER_RETRY_UNASKED_MS * 1000ULL))
                hub_server_start(s);
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
                connection_open(s->connection, fds);
        else
                connection_open_http(s->connection, fds, s->host->http,
                                     s->config->transport == CONFIG_SSE);
        if (!connection_is_open(s->connection)) {
                on_no_memory(s);
                return true;
        }
        set_state(s, SERVER_HANDSHAKE);
        handshake_begin(s->handshake);
        return true;
}

void hub_server_start_failed(struct hub_server *s, const struct error *error)
{
        if (s->state == SERVER_STARTING)
                fail(s, error);
}

bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status)
{
        if (!s->has_instance || s->has_ended || s->instance != instance)
                return false;
        s->has_ended = true;
        s->wait_status = wait_status;
        if (!connection_has_output(s->connection)) {
                conclude(s);
                return true;
        }
        /* Answers that it wrote before its end may still be in the pipe. */
        if (s->state == SERVER_READY)
                set_state(s, SERVER_ENDING);
        set_deadline(s, SERVER_DRAIN_MS);
        return true;
}

void hub_server_set_config(struct hub_server *s, uint32_t index, const struct config_server *config)
{
        s->config = config;
        s->index = index;
}

void hub_server_ask_again(struct hub_server *s)
{
        if (s->state == SERVER_STARTING)
                s->host->start(s->host->data, s->index);
}

struct hub_server *hub_server_new(const struct hub_server_host *host, uint32_t index,
                                  const struct config_server *config)
{
        struct hub_server *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->host = host;
        s->config = config;
        s->index = index;
        s->unnamed = (struct rate){.window_us = 1000000, .most = SERVER_UNNAMED_MAX};
        s->deadline = evtimer_new(host->base, on_deadline, s);
        s->connection = connection_new(host->base, &connection_host, s);
        s->handshake = handshake_new(host->base, s->connection, &handshake_host, s);
        s->listing = listing_new(host->base, s->connection, &listing_host, s);
        s->calls = hub_calls_new(&hub_server_calls_host, s);
        if (!s->deadline || !s->connection || !s->handshake || !s->listing || !s->calls)
                return hub_server_free(s);
        if (!hub_server_unusable(s))
                hub_server_take_cached(s);
        return s;
}

struct hub_server *hub_server_free(struct hub_server *s)
{
        if (!s)
                return NULL;
        hub_calls_free(s->calls);
        hub_server_drop_asks(s);
        listing_free(s->listing);
        handshake_free(s->handshake);
        connection_free(s->connection);
        if (s->deadline)
                event_free(s->deadline);
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
        hub_calls_fail_sent(s->calls, message);
        hub_calls_fail_waiting(s->calls, message);
        hub_server_free(s);
}
