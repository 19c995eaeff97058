/* What a server says on its stdout: answers, requests of its own, notifications, and what is none
 * of these. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/catalogue-cache.h"
#include "supervisor/hub/hub-private.h"

enum { SHOWN = 80, ANSWERS_QUEUED_MAX = 1024 * 1024 };

/* The revisions that shake hands by initialize (MCP.md names what each changed; none of it is ours
 * to send). */
static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

/* What a server may ask or tell, and in which states. Other requests are refused, other
 * notifications passed over. */
static const struct {
        const char *method;
        unsigned states;    /* bits 1 << enum server_state */
        const char *result; /* of a request */
        void (*notification)(struct hub_server *s);
} methods[] = {
        {"ping", ~0U, "{}", NULL},
        {"notifications/tools/list_changed", 1U << SERVER_LISTING | 1U << SERVER_READY, NULL,
         hub_server_list_changed},
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
                        methods[i].notification(s);
        }
}

static void on_request(struct hub_server *s, const struct jsonrpc_message *m)
{
        const char *result = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].result && is_method(m, i) && methods[i].states & 1U << s->state)
                        result = methods[i].result;
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

static bool is_known_revision(yyjson_val *version)
{
        for (size_t i = 0; i < ARRAY_SIZE(revisions); i++) {
                if (yyjson_equals_str(version, revisions[i]))
                        return true;
        }
        return false;
}

/* Where to cut a text of UTF-8 so that at most `most` bytes and no half character remain. */
static size_t cut_point(const char *text, size_t n, size_t most)
{
        if (n <= most)
                return n;
        while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
                most--;
        return most;
}

static void take_instructions(struct hub_server *s, yyjson_val *result)
{
        size_t n = 0;
        const char *text = json_string(result, "instructions", &n);

        free(s->instructions);
        s->instructions = text && n > 0 ? strndup(text, cut_point(text, n, HUB_INSTRUCTIONS_MAX))
                                        : NULL;
}

static void on_initialized(struct hub_server *s, const struct jsonrpc_message *m)
{
        yyjson_val *version = yyjson_obj_get(m->result, "protocolVersion");

        if (m->kind == JSONRPC_ERROR)
                hub_server_failf(s, "refused initialize: %.200s (%lld)", m->error_message,
                                 (long long)m->error_code);
        else if (!yyjson_is_str(version))
                hub_server_failf(s, "answered initialize without a protocolVersion");
        else if (!is_known_revision(version))
                hub_server_failf(s, "speaks MCP %.40s; Cloister speaks %s to %s",
                                 yyjson_get_str(version), revisions[ARRAY_SIZE(revisions) - 1],
                                 revisions[0]);
        else {
                take_instructions(s, m->result);
                hub_server_notify(s, "notifications/initialized", NULL, 0);
                hub_server_list(s);
        }
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
        if (s->request_id != 0 && jsonrpc_id_is(m->id, s->request_id)) {
                s->request_id = 0;
                if (s->state == SERVER_INITIALIZING)
                        on_initialized(s, m);
                else
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

        yyjson_arr_foreach(batch, i, n, element) wanted |= on_batch_element(s, element);
        return wanted;
}

static bool on_not_json(struct hub_server *s, const char *line, size_t n, const struct error *why)
{
        struct hub_call *call = hub_call_guess(s, line, n);

        if (call)
                hub_call_spoiled(call, why->text);
        else if (hub_server_may_warn(s))
                log_warning("server %s: skipped a line on stdout that is not a message (%s): %.*s",
                            s->config->name, why->text, (int)cut_point(line, n, SHOWN), line);
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
