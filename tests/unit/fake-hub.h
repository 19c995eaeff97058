/* A hub for tests of what calls one: it remembers what it is asked, and the test answers. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "supervisor/hub/hub.h"
#include "tests/unit/test.h"

struct hub_call {
        struct hub_call *next;
        char server[64], tool[64];
        struct buffer arguments;
        void (*fn)(void *data, const struct hub_result *result);
        void *data;
};

struct hub_wait {
        void (*fn)(void *data);
        void *data;
};

struct fake_hub {
        struct buffer catalogue;
        uint64_t version;
        int started_unknown, started_all, dropped, waits_cancelled;
        struct hub_call *calls; /* oldest first */
        size_t n_calls;
        struct hub_wait *wait;
        uint32_t wait_ms;
        bool refuse;
};

static struct fake_hub fake_hub;

static inline void fake_hub_reset(const char *catalogue)
{
        buffer_done(&fake_hub.catalogue);
        fake_hub = (struct fake_hub){.catalogue = BUFFER_INIT(1024 * 1024), .version = 1};
        check_eq_int(buffer_append(&fake_hub.catalogue, catalogue, strlen(catalogue)), 0);
}

static inline void fake_hub_change(const char *catalogue)
{
        buffer_consume(&fake_hub.catalogue, fake_hub.catalogue.length);
        check_eq_int(buffer_append(&fake_hub.catalogue, catalogue, strlen(catalogue)), 0);
        fake_hub.version++;
}

static inline void fake_call_free(struct hub_call *call)
{
        for (struct hub_call **at = &fake_hub.calls; *at; at = &(*at)->next) {
                if (*at == call) {
                        *at = call->next;
                        break;
                }
        }
        fake_hub.n_calls--;
        buffer_done(&call->arguments);
        free(call);
}

/* Answers the oldest call with a result given as JSON. */
static inline void fake_hub_answer(const char *json)
{
        struct error err = {};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct hub_call *call = fake_hub.calls;

        check(call);
        check_ok(json_parse(json, strlen(json), &doc, &err));
        const struct hub_result result = {.outcome = HUB_OK,
                                          .result = yyjson_doc_get_root(doc),
                                          .duration_us = 1500,
                                          .sent = true};
        call->fn(call->data, &result);
        fake_call_free(call);
}

static inline void fake_hub_fail(enum hub_outcome outcome, const char *message, int64_t code,
                                 bool sent)
{
        struct hub_call *call = fake_hub.calls;
        const struct hub_result result = {
                .outcome = outcome, .message = message, .rpc_code = code, .sent = sent};

        check(call);
        call->fn(call->data, &result);
        fake_call_free(call);
}

static inline void fake_hub_waited(void)
{
        struct hub_wait *wait = fake_hub.wait;

        check(wait);
        fake_hub.wait = NULL;
        wait->fn(wait->data);
        free(wait);
}

void hub_start(struct hub *hub, const struct config_profile *profile, enum hub_which which)
{
        fake_hub.started_all += which == HUB_ALL;
        fake_hub.started_unknown += which == HUB_UNKNOWN;
}

const struct buffer *hub_catalogue(struct hub *hub, const struct config_profile *profile,
                                   uint64_t *version)
{
        *version = fake_hub.version;
        return &fake_hub.catalogue;
}

struct hub_wait *hub_wait(struct hub *hub, const struct config_profile *profile,
                          uint32_t timeout_ms, void (*fn)(void *data), void *data)
{
        check(!fake_hub.wait);
        fake_hub.wait = malloc(sizeof(*fake_hub.wait));
        *fake_hub.wait = (struct hub_wait){fn, data};
        fake_hub.wait_ms = timeout_ms;
        return fake_hub.wait;
}

void hub_wait_cancel(struct hub_wait *wait)
{
        check(wait == fake_hub.wait);
        fake_hub.wait = NULL;
        fake_hub.waits_cancelled++;
        free(wait);
}

const char *hub_outcome_kind(enum hub_outcome outcome)
{
        static const char *const kinds[] = {"", "ToolNotFound", "ToolUnavailable", "ToolTimeout",
                                            "ToolProtocolError"};
        return kinds[outcome];
}

int hub_call(struct hub *hub, const struct config_profile *profile, const char *server,
             const char *tool, yyjson_val *arguments, uint32_t timeout_ms,
             void (*fn)(void *data, const struct hub_result *result), void *data,
             struct hub_call **ret, struct error *err)
{
        struct hub_call **at = &fake_hub.calls, *call;

        if (fake_hub.refuse)
                return error_set(err, E2BIG, "the arguments are too large");
        call = calloc(1, sizeof(*call));
        snprintf(call->server, sizeof(call->server), "%s", server);
        snprintf(call->tool, sizeof(call->tool), "%s", tool);
        buffer_init(&call->arguments, 64 * 1024 * 1024);
        check_eq_int(json_append(&call->arguments, arguments), 0);
        call->fn = fn;
        call->data = data;
        while (*at)
                at = &(*at)->next;
        *at = call;
        fake_hub.n_calls++;
        *ret = call;
        return 0;
}

void hub_call_drop(struct hub_call *call)
{
        fake_hub.dropped++;
        fake_call_free(call);
}
