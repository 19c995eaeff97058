/* What a server says on its stdout: answers, requests of its own, notifications, and what is none
 * of these. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/hub-internal.h"

enum { SHOWN = 80, ANSWERS_QUEUED_MAX = 1024 * 1024 };

/* What a server may ask or tell, and in which states. Other requests are refused, other
 * notifications passed over. */
static const struct {
        const char *method;
        unsigned states;    /* bits 1 << enum server_state */
        const char *result; /* of a request */
        void (*notification)(struct hub_server *s, const struct jsonrpc_message *m);
} methods[] = {
        {"ping", ~0U, "{}", NULL},
        {"notifications/tools/list_changed", 1U << SERVER_LISTING | 1U << SERVER_READY, NULL,
         hub_handshake_on_changed},
        {"notifications/subscriptions/acknowledged", 1U << SERVER_LISTING | 1U << SERVER_READY,
         NULL, hub_handshake_on_acknowledged},
        {"notifications/cancelled", 1U << SERVER_LISTING | 1U << SERVER_READY, NULL,
         hub_handshake_on_cancelled},
};

static bool is_method(const struct jsonrpc_message *m, size_t i)
{
        return m->method_length == strlen(methods[i].method) &&
               memcmp(m->method, methods[i].method, m->method_length) == 0;
}

static void on_notification(struct hub_server *s, const struct jsonrpc_message *m)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].notification && is_method(m, i) &&
                    methods[i].states & 1U << s->state)
                        methods[i].notification(s, m);
        }
}

static void on_request(struct hub_server *s, const struct jsonrpc_message *m)
{
        const char *result = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].result && is_method(m, i) && methods[i].states & 1U << s->state)
                        result = methods[i].result;
        }
        /* MCP 2026-07-28 knows no requests of servers, and forbids us to answer one. */
        if (s->speaks == HUB_ERA_MODERN) {
                if (hub_server_may_warn(s))
                        log_warning("server %s: skipped a request, which it may not make",
                                    s->config->name);
                return;
        }
        /* One that asks without reading must not make us hold its answers. */
        if (s->fds[0] < 0 || s->queue.length > ANSWERS_QUEUED_MAX)
                return;
        if (result)
                jsonrpc_append_result(&s->queue, m->id, result, strlen(result));
        else
                jsonrpc_append_error(&s->queue, m->id, JSONRPC_METHOD_NOT_FOUND, "Method not found",
                                     NULL, 0);
        hub_server_sent(s);
}

size_t hub_cut_point(const char *text, size_t n, size_t most)
{
        if (n <= most)
                return n;
        while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
                most--;
        return most;
}

/* An answer to nothing that is open: one already given up or had, or a number we never used. */
static void on_stray(struct hub_server *s, yyjson_val *id)
{
        int64_t n;

        if (!id || json_int64(id, &n) < 0 || n < 1 || n > s->last_id) {
                if (hub_server_may_warn(s))
                        log_warning("server %s: skipped an answer to a request that was not made",
                                    s->config->name);
                return;
        }
        log_debug("server %s: skipped a late or repeated answer to request %lld", s->config->name,
                  (long long)n);
}

/* Returns whether it was waited for. */
static bool on_answer(struct hub_server *s, struct jsonrpc_message *m)
{
        if (hub_handshake_answer(s, m))
                return true;
        if (s->request_id != 0 && jsonrpc_id_is(m->id, s->request_id)) {
                s->request_id = 0;
                hub_server_list_answer(s, m);
                return true;
        }
        struct hub_call *call = hub_call_find(s, m->id);
        if (call)
                hub_call_answer(call, m);
        else if (m->kind == JSONRPC_ERROR && !m->id && hub_server_may_warn(s))
                log_warning("server %s: reports an error of no request: %.200s (%lld)",
                            s->config->name, m->error_message, (long long)m->error_code);
        else if (m->id)
                on_stray(s, m->id);
        return call != NULL;
}

/* JSON, but not JSON-RPC. If it names a call of ours, nothing better will come for that. */
static bool on_invalid(struct hub_server *s, const struct jsonrpc_message *m,
                       const struct error *why)
{
        struct hub_call *call = m->id ? hub_call_find(s, m->id) : NULL;

        if (call) {
                hub_call_spoiled(call, why->text);
                return true;
        }
        if (m->id && hub_handshake_spoiled(s, m->id))
                return true;
        if (s->request_id != 0 && m->id && jsonrpc_id_is(m->id, s->request_id)) {
                hub_server_failf(s, "answered %s with what is %s",
                                 s->state == SERVER_INITIALIZING ? "initialize" : "tools/list",
                                 why->text);
                return true;
        }
        if (hub_server_may_warn(s))
                log_warning("server %s: skipped a line on stdout: %s", s->config->name, why->text);
        return false;
}

static bool on_message(struct hub_server *s, struct jsonrpc_message *m)
{
        switch (m->kind) {
        case JSONRPC_REQUEST:
                on_request(s, m);
                return false;
        case JSONRPC_NOTIFICATION:
                on_notification(s, m);
                return false;
        case JSONRPC_RESPONSE:
        case JSONRPC_ERROR:
                return on_answer(s, m);
        default:
                return false;
        }
}

/* An answer outlives the batch that it came in: each element becomes a message of its own. */
static bool on_batch_element(struct hub_server *s, yyjson_val *element)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(LINES_MOST);
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct error err = {};

        if (yyjson_is_arr(element) || json_append(&text, element) < 0)
                return false;
        int r = jsonrpc_parse(buffer_bytes(&text), text.length, &m, &err);
        return r < 0 ? on_invalid(s, &m, &err) : on_message(s, &m);
}

static bool on_batch(struct hub_server *s, yyjson_val *batch)
{
        size_t i, n;
        yyjson_val *element;
        bool wanted = false;

        yyjson_arr_foreach (batch, i, n, element)
                wanted |= on_batch_element(s, element);
        return wanted;
}

static bool on_not_json(struct hub_server *s, const char *line, size_t n, const struct error *why)
{
        struct hub_call *call = hub_call_guess(s, line, n);

        if (call)
                hub_call_spoiled(call, why->text);
        else if (hub_server_may_warn(s))
                log_warning("server %s: skipped a line on stdout that is not a message (%s): %.*s",
                            s->config->name, why->text, (int)hub_cut_point(line, n, SHOWN), line);
        return call != NULL;
}

bool hub_server_message(struct hub_server *s, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message m = {};
        struct error err = {};

        int r = jsonrpc_parse(line, n, &m, &err);
        if (r == -EINVAL)
                return on_invalid(s, &m, &err);
        if (r < 0)
                return on_not_json(s, line, n, &err);
        return m.kind == JSONRPC_BATCH ? on_batch(s, m.batch) : on_message(s, &m);
}
