/* One upstream server: its parts, and the events that concern more than one of them. */
#include "supervisor/hub/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "supervisor/hub/cache/cache.h"
#include "supervisor/hub/call/answer.h"
#include "supervisor/hub/server/cached-tools.h"
#include "supervisor/hub/server/calls.h"
#include "supervisor/hub/server/messages.h"
#include "supervisor/hub/server/requests.h"

const struct config_server *hub_server_config(const struct hub_server *s)
{
        return s->config;
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

/* ---- what the parts report ---- */

static void on_cut(void *data)
{
        struct hub_server *s = data;

        if (s->has_ended) {
                hub_server_conclude(s);
                return;
        }
        if (s->state == SERVER_READY)
                hub_server_set_state(s, SERVER_ENDING);
        /* Its exit status says more. A server that closed its pipes but runs on is of no use. */
        hub_server_set_deadline(s, SERVER_END_MS);
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
        .line = hub_server_on_line,
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
        on_listed(s, none);
}

static void list_tools(struct hub_server *s)
{
        bool is_first = s->state == SERVER_HANDSHAKE;

        if (is_first)
                hub_server_set_state(s, SERVER_LISTING);
        if (!s->has_tools) {
                list_none(s);
                return;
        }
        if (!hub_server_is_ending(s)) {
                if (is_first && s->config->start_timeout_ms)
                        hub_server_set_start_deadline(s);
                else
                        hub_server_set_deadline(s, SERVER_LIST_MS);
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
        hub_server_restart(data, why);
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
        if (hub_server_is_ending(s))
                return;
        s->failures = 0;
        hub_server_set_state(s, SERVER_READY);
        log_info("server %s: ready, %zu tools, %s", s->config->name, hub_tools_count(s->tools),
                 hub_era_name(handshake_speaks(s->handshake)));
        hub_calls_send_waiting(s->calls);
}

static void on_listed(void *data, struct hub_tools *tools)
{
        struct hub_server *s = data;
        bool is_new = !s->tools || !hub_tools_equal(s->tools, tools);

        hub_server_clear_deadline(s);
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
        hub_server_clear_deadline(s);
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
                connection_open_http(s->connection, fds, &s->host->http,
                                     s->config->transport == CONFIG_SSE);
        if (!connection_is_open(s->connection)) {
                on_no_memory(s);
                return true;
        }
        hub_server_set_state(s, SERVER_HANDSHAKE);
        handshake_begin(s->handshake);
        return true;
}

void hub_server_start_failed(struct hub_server *s, const struct error *error)
{
        if (s->state == SERVER_STARTING)
                hub_server_fail(s, error);
}

bool hub_server_ended(struct hub_server *s, uint32_t instance, int wait_status)
{
        if (!s->has_instance || s->has_ended || s->instance != instance)
                return false;
        s->has_ended = true;
        s->wait_status = wait_status;
        if (!connection_has_output(s->connection)) {
                hub_server_conclude(s);
                return true;
        }
        /* Answers that it wrote before its end may still be in the pipe. */
        if (s->state == SERVER_READY)
                hub_server_set_state(s, SERVER_ENDING);
        hub_server_set_deadline(s, SERVER_DRAIN_MS);
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
        s->connection = connection_new(host->base, &connection_host, s);
        s->handshake = handshake_new(host->base, s->connection, &handshake_host, s);
        s->listing = listing_new(host->base, s->connection, &listing_host, s);
        s->questions = (struct questions){
                .base = host->base, .answered = hub_server_on_answered, .data = s};
        TAILQ_INIT(&s->questions.open);
        s->calls = hub_calls_new(&hub_server_calls_host, s);
        if (hub_server_add_deadline(s) < 0 || !s->connection || !s->handshake || !s->listing ||
            !s->calls)
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
        questions_withdraw_all(&s->questions);
        if (s->roots_due)
                event_free(s->roots_due);
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
        hub_server_release(s);
        hub_calls_fail_sent(s->calls, message);
        hub_calls_fail_waiting(s->calls, message);
        hub_server_free(s);
}
