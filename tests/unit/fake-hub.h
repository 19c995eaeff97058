/* A tool provider for tests of sessions and of the MCP server: it records the calls, and the test
 * answers them. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "supervisor/session/tool-provider.h"
#include "tests/unit/test.h"

struct fake_call {
        struct fake_call *next;
        char server[64], tool[64];
        struct buffer arguments;
        struct tool_call *call;
};

struct fake_hub {
        struct buffer catalogue;
        uint64_t version;
        int started_unknown, started_all, dropped, waits_cancelled;
        struct fake_call *calls; /* oldest first */
        size_t n_calls;
        struct tool_call *wait;
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

static inline void fake_call_free(struct fake_call *call)
{
        for (struct fake_call **at = &fake_hub.calls; *at; at = &(*at)->next) {
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
        struct fake_call *call = fake_hub.calls;

        check(call);
        check_ok(json_parse(json, strlen(json), &doc, &err));
        const struct tool_result result = {
                .result = yyjson_doc_get_root(doc), .duration_us = 1500, .sent = true};
        tool_call_done(call->call, &result);
        fake_call_free(call);
}

static inline void fake_hub_fail(const char *kind, const char *message, int64_t code, bool sent)
{
        struct fake_call *call = fake_hub.calls;
        const struct tool_result result = {
                .error_kind = kind, .message = message, .rpc_code = code, .sent = sent};

        check(call);
        tool_call_done(call->call, &result);
        fake_call_free(call);
}

static inline void fake_hub_waited(void)
{
        struct tool_call *wait = fake_hub.wait;

        check(wait);
        fake_hub.wait = NULL;
        tool_wait_done(wait);
}

static inline void fake_hub_start(void *data, const struct config_profile *profile,
                                  enum tool_servers which)
{
        check(data == &fake_hub);
        fake_hub.started_all += which == TOOL_SERVERS_ALL;
        fake_hub.started_unknown += which == TOOL_SERVERS_UNKNOWN;
}

static inline const struct buffer *fake_hub_catalogue(void *data,
                                                      const struct config_profile *profile,
                                                      uint64_t *version)
{
        *version = fake_hub.version;
        return &fake_hub.catalogue;
}

static inline void *fake_hub_wait(void *data, const struct config_profile *profile,
                                  uint32_t timeout_ms, struct tool_call *call)
{
        check(!fake_hub.wait);
        fake_hub.wait = call;
        fake_hub.wait_ms = timeout_ms;
        return call;
}

static inline void fake_hub_cancel_wait(void *handle)
{
        check(handle == fake_hub.wait);
        fake_hub.wait = NULL;
        fake_hub.waits_cancelled++;
}

static inline int fake_hub_call(void *data, const struct config_profile *profile,
                                const char *server, const char *tool, yyjson_val *arguments,
                                uint32_t timeout_ms, struct tool_call *tool_call, void **handle,
                                struct error *err)
{
        struct fake_call **at = &fake_hub.calls, *call;

        if (fake_hub.refuse)
                return error_set(err, E2BIG, "the arguments are too large");
        call = calloc(1, sizeof(*call));
        snprintf(call->server, sizeof(call->server), "%s", server);
        snprintf(call->tool, sizeof(call->tool), "%s", tool);
        buffer_init(&call->arguments, 64 * 1024 * 1024);
        check_eq_int(json_append(&call->arguments, arguments), 0);
        call->call = tool_call;
        while (*at)
                at = &(*at)->next;
        *at = call;
        fake_hub.n_calls++;
        *handle = call;
        return 0;
}

static inline void fake_hub_drop(void *handle)
{
        fake_hub.dropped++;
        fake_call_free(handle);
}

static const struct tool_provider fake_tools __attribute__((unused)) = {
        .data = &fake_hub,
        .start = fake_hub_start,
        .catalogue = fake_hub_catalogue,
        .call = fake_hub_call,
        .drop = fake_hub_drop,
        .wait = fake_hub_wait,
        .cancel_wait = fake_hub_cancel_wait,
};
