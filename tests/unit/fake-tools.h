/* A tool provider for tests of sessions and of the MCP server: it records the calls, and the test
 * answers them. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/session/machine/tool-provider.h"
#include "tests/unit/test.h"

struct fake_call {
        struct fake_call *next;
        char server[64], tool[64];
        struct buffer arguments;
        bool by_reference; /* the arguments can be kept without a copy */
        struct tool_call *call;
};

struct fake_tools {
        struct buffer catalogue;
        uint64_t version;
        int started_unknown, started_all, dropped, waits_cancelled;
        struct fake_call *calls; /* oldest first */
        size_t n_calls;
        struct tool_call *wait;
        uint32_t wait_ms;
        struct tool_call *search;
        char query[64];
        size_t limit;
        int searches_cancelled;
        bool search_at_once; /* answered before it returns */
        bool refuse;
        bool keep; /* calls are not sent, as to a server that is starting */
};

static struct fake_tools fake_tools;

static inline void fake_tools_reset(const char *catalogue)
{
        buffer_done(&fake_tools.catalogue);
        fake_tools = (struct fake_tools){.catalogue = BUFFER_INIT(1024 * 1024), .version = 1};
        check_eq_int(buffer_append(&fake_tools.catalogue, catalogue, strlen(catalogue)), 0);
}

static inline void fake_tools_change(const char *catalogue)
{
        buffer_consume(&fake_tools.catalogue, fake_tools.catalogue.length);
        check_eq_int(buffer_append(&fake_tools.catalogue, catalogue, strlen(catalogue)), 0);
        fake_tools.version++;
}

static inline void fake_call_free(struct fake_call *call)
{
        for (struct fake_call **at = &fake_tools.calls; *at; at = &(*at)->next) {
                if (*at == call) {
                        *at = call->next;
                        break;
                }
        }
        fake_tools.n_calls--;
        buffer_done(&call->arguments);
        free(call);
}

/* Answers the oldest call with a result given as JSON. */
static inline void fake_tools_answer(const char *json)
{
        struct error err = {};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct fake_call *call = fake_tools.calls;

        check(call);
        check_ok(json_parse(json, strlen(json), &doc, &err));
        const struct tool_result result = {
                .result = yyjson_doc_get_root(doc), .duration_us = 1500, .sent = true};
        tool_call_done(call->call, &result);
        fake_call_free(call);
}

static inline void fake_tools_fail(const char *kind, const char *message, int64_t code, bool sent)
{
        struct fake_call *call = fake_tools.calls;
        const struct tool_result result = {
                .error_kind = kind, .message = message, .rpc_code = code, .sent = sent};

        check(call);
        tool_call_done(call->call, &result);
        fake_call_free(call);
}

static inline void fake_tools_end_wait(void)
{
        struct tool_call *wait = fake_tools.wait;

        check(wait);
        fake_tools.wait = NULL;
        tool_wait_done(wait);
}

static inline void fake_tools_start(void *data, const struct config_profile *profile,
                                    enum tool_servers which)
{
        check(data == &fake_tools);
        fake_tools.started_all += which == TOOL_SERVERS_ALL;
        fake_tools.started_unknown += which == TOOL_SERVERS_UNKNOWN;
}

static inline const struct buffer *fake_tools_catalogue(void *data,
                                                        const struct config_profile *profile,
                                                        uint64_t *version)
{
        *version = fake_tools.version;
        return &fake_tools.catalogue;
}

static inline void *fake_tools_wait(void *data, const struct config_profile *profile,
                                    uint32_t timeout_ms, struct tool_call *call)
{
        if (fake_tools.wait)
                return NULL;
        fake_tools.wait = call;
        fake_tools.wait_ms = timeout_ms;
        return call;
}

static inline void fake_tools_cancel_wait(void *handle)
{
        check(handle == fake_tools.wait);
        fake_tools.wait = NULL;
        fake_tools.waits_cancelled++;
}

static inline void fake_tools_end_search(const char *found)
{
        struct tool_call *search = fake_tools.search;

        check(search);
        fake_tools.search = NULL;
        tool_search_done(search, found, found ? strlen(found) : 0);
}

static inline int fake_tools_search(void *data, const struct config_profile *profile,
                                    const char *query, size_t n, size_t limit,
                                    struct tool_call *call, void **handle)
{
        if (fake_tools.refuse)
                return -ENOMEM;
        snprintf(fake_tools.query, sizeof(fake_tools.query), "%.*s", (int)n, query);
        fake_tools.limit = limit;
        fake_tools.search = *handle = call;
        if (fake_tools.search_at_once)
                fake_tools_end_search("{\"tools\":[]}");
        return 0;
}

static inline void fake_tools_cancel_search(void *handle)
{
        fake_tools.searches_cancelled++;
        if (handle == fake_tools.search)
                fake_tools.search = NULL;
}

static inline int fake_tools_call(void *data, const struct tool_request *request, void **handle,
                                  struct error *err)
{
        struct fake_call **at = &fake_tools.calls, *call;

        if (fake_tools.refuse)
                return error_set(err, E2BIG, "the arguments are too large");
        call = calloc(1, sizeof(*call));
        snprintf(call->server, sizeof(call->server), "%s", request->server);
        snprintf(call->tool, sizeof(call->tool), "%s",
                 request->method ? request->method : request->tool);
        buffer_init(&call->arguments, 64 * 1024 * 1024);
        call->by_reference = request->text;
        if (request->text)
                check_eq_int(
                        buffer_append(&call->arguments, request->text->bytes, request->text->n), 0);
        else
                check_eq_int(json_append(&call->arguments, request->arguments), 0);
        call->call = request->call;
        while (*at)
                at = &(*at)->next;
        *at = call;
        fake_tools.n_calls++;
        *handle = call;
        return 0;
}

static inline void fake_tools_drop(void *handle)
{
        fake_tools.dropped++;
        fake_call_free(handle);
}

static inline bool fake_tools_is_sent(void *handle)
{
        return !fake_tools.keep;
}

static const struct tool_provider fake_tool_provider __attribute__((unused)) = {
        .data = &fake_tools,
        .start = fake_tools_start,
        .catalogue = fake_tools_catalogue,
        .call = fake_tools_call,
        .drop = fake_tools_drop,
        .is_sent = fake_tools_is_sent,
        .wait = fake_tools_wait,
        .cancel_wait = fake_tools_cancel_wait,
        .search = fake_tools_search,
        .cancel_search = fake_tools_cancel_search,
};
