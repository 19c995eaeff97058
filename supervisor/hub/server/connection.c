/* The messages to one server, over whatever carries them. */
#include "supervisor/hub/server/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/json-out.h"
#include "base/log.h"
#include "cloister-config.h"
#include "rpc/client-request.h"
#include "rpc/lines.h"
#include "supervisor/hub/http/http.h"

enum { RESPONSES_QUEUED_MAX = 1024 * 1024 };

/* Of the members of _meta in every request of MCP 2026-07-28. */
#define META "io.modelcontextprotocol/"
enum { META_MAX = 4096 };

static const char *name(const struct connection *c)
{
        return c->host->name(c->data);
}

bool connection_may_warn(struct connection *c)
{
        uint64_t missed = 0;
        bool allowed = rate_allow(&c->warn_rate, 1, &missed);

        if (missed > 0)
                log_warning("server %s: %llu more warnings were not written", name(c),
                            (unsigned long long)missed);
        return allowed;
}

/* Where a message of about n bytes is to be appended; see transport.h. */
static int prepare(struct connection *c, size_t n, struct buffer **to)
{
        return c->transport ? c->transport->kind->prepare(c->transport, n, to) : -EPIPE;
}

/* Sends what was appended, or forgets it. */
static int commit(struct connection *c, int r, const struct outgoing *m)
{
        if (r >= 0)
                return c->transport->kind->commit(c->transport, m);
        c->transport->kind->abandon(c->transport);
        return r;
}

void connection_put_client(struct json_out *out, const char *key)
{
        json_out_begin(out, key, '{');
        json_out_text(out, "name", "cloister");
        json_out_text(out, "version", CLOISTER_VERSION);
        json_out_end(out, '}');
}

static void put_modern(struct json_out *out, const struct connection_call *call)
{
        json_out_text(out, META "protocolVersion", "2026-07-28");
        json_out_begin(out, META "clientCapabilities", '{');
        if (call)
                client_can_put(out, call->can & ~CLIENT_TELLS_ROOTS);
        if (call && call->takes_tasks) {
                json_out_begin(out, "extensions", '{');
                json_out_raw(out, META "tasks", "{}", 2);
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
        connection_put_client(out, META "clientInfo");
        if (call && call->log_level)
                json_out_text(out, META "logLevel", call->log_level);
}

/* The member _meta and a NUL. call: NULL, or of a call. m: the trace. */
static int append_meta(const struct connection *c, const struct connection_call *call,
                       const struct outgoing *m, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, "_meta", '{');
        if (c->is_modern)
                put_modern(&out, call);
        if (call)
                json_out_int(&out, "progressToken", m->id);
        if (m->trace_parent)
                json_out_text(&out, "traceparent", m->trace_parent);
        if (m->trace_state)
                json_out_text(&out, "tracestate", m->trace_state);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(to, "", 1);
}

static int64_t send_request(struct connection *c, const char *method,
                            const struct connection_call *call, const struct call_params *params)
{
        _cleanup_buffer_ struct buffer meta = BUFFER_INIT(META_MAX);
        bool has_meta = c->is_modern || call;
        int64_t id = ++c->last_id;
        char after[64], parent[TRACE_PARENT_LENGTH + 1];
        const struct trace_context *trace = call ? call->trace : NULL;
        const struct outgoing m = {.kind = OUTGOING_REQUEST,
                                   .id = id,
                                   .method = method,
                                   .params = buffer_bytes(&params->bytes),
                                   .n = params->bytes.length,
                                   .is_modern = c->is_modern,
                                   .principal = call ? call->principal : 0,
                                   .trace_parent = trace ? parent : NULL,
                                   .trace_state = trace && *trace->state ? trace->state : NULL,
                                   .text = params->text,
                                   .after = after};
        struct buffer *to;

        if (trace)
                trace_context_child(trace, parent);
        snprintf(after, sizeof(after), "%s" JSONRPC_END, params->text ? params->after : "");
        int r = prepare(c, call_params_length(params), &to);
        if (r < 0)
                return r;
        if (has_meta)
                r = append_meta(c, call, &m, &meta);
        if (r >= 0)
                r = jsonrpc_begin_request(to, id, method, has_meta ? buffer_bytes(&meta) : NULL,
                                          m.params, m.n);
        if (r >= 0 && !params->text)
                r = buffer_append_text(to, JSONRPC_END);
        r = commit(c, r, &m);
        return r < 0 ? r : id;
}

/* Sends a request over a transport that needs the params in one piece. */
static int64_t send_whole(struct connection *c, const char *method,
                          const struct connection_call *call, const struct call_params *params)
{
        struct call_params whole = {.bytes = BUFFER_INIT(LINES_MAX)};
        struct buffer *b = &whole.bytes;

        int64_t r = buffer_append(b, buffer_bytes(&params->bytes), params->bytes.length);
        if (r >= 0)
                r = buffer_append(b, params->text->bytes, params->text->n);
        if (r >= 0)
                r = buffer_append_text(b, params->after);
        if (r >= 0)
                r = send_request(c, method, call, &whole);
        call_params_done(&whole);
        return r;
}

int64_t connection_request(struct connection *c, const char *method, const char *params, size_t n)
{
        /* Borrowed. */
        const struct call_params borrowed = {
                .bytes = {.data = (char *)(uintptr_t)params, .length = n, .limit = LINES_MAX}};

        return send_request(c, method, NULL, &borrowed);
}

int64_t connection_call(struct connection *c, const char *method,
                        const struct connection_call *call, const struct call_params *params)
{
        if (params->text && c->transport && !c->transport->kind->takes_text)
                return send_whole(c, method, call, params);
        return send_request(c, method, call, params);
}

int connection_notify(struct connection *c, const char *method, const char *params, size_t n)
{
        const struct outgoing m = {.kind = OUTGOING_NOTIFICATION,
                                   .method = method,
                                   .params = params,
                                   .n = n,
                                   .is_modern = c->is_modern};
        struct buffer *to;

        int r = prepare(c, n, &to);
        if (r < 0)
                return r;
        return commit(c, jsonrpc_append_notification(to, method, params, n), &m);
}

bool connection_cancel(struct connection *c, int64_t id, const char *reason)
{
        char params[128];

        if (!c->transport || (c->transport->kind->cancel &&
                              c->transport->kind->cancel(c->transport, id, c->is_modern)))
                return false;
        int n = snprintf(params, sizeof(params), "{\"requestId\":%lld,\"reason\":\"%s\"}",
                         (long long)id, reason);
        /* If it cannot be sent, the answer is ignored all the same. */
        connection_notify(c, "notifications/cancelled", params, (size_t)n);
        return true;
}

void connection_answered(struct connection *c, int64_t id)
{
        if (c->transport && c->transport->kind->answered)
                c->transport->kind->answered(c->transport, id);
}

/* Bytes that wait to be written. */
static size_t queued(const struct connection *c)
{
        return c->transport ? c->transport->kind->queued(c->transport) : 0;
}

void connection_respond(struct connection *c, yyjson_val *id, const char *result, const char *why)
{
        const struct outgoing m = {.kind = OUTGOING_ANSWER, .is_modern = c->is_modern};
        struct buffer *to;

        if (!result) {
                connection_refuse(c, id, JSONRPC_INTERNAL_ERROR, why);
                return;
        }
        /* A server that asks without reading must not make the queue grow. */
        if (queued(c) > RESPONSES_QUEUED_MAX || prepare(c, 0, &to) < 0)
                return;
        commit(c, jsonrpc_append_result(to, id, result, strlen(result)), &m);
}

void connection_refuse(struct connection *c, yyjson_val *id, int code, const char *why)
{
        const struct outgoing m = {.kind = OUTGOING_ANSWER, .is_modern = c->is_modern};
        struct buffer *to;

        if (queued(c) > RESPONSES_QUEUED_MAX || prepare(c, 0, &to) < 0)
                return;
        commit(c, jsonrpc_append_error(to, id, code, why, NULL, 0), &m);
}

void connection_fail(struct connection *c, const char *why)
{
        c->host->failed(c->data, why);
}

void connection_set_modern(struct connection *c, bool is_modern)
{
        c->is_modern = is_modern;
}

void connection_set_version(struct connection *c, const char *version)
{
        if (c->transport && c->transport->kind->set_version)
                c->transport->kind->set_version(c->transport, version);
}

bool connection_is_http(const struct connection *c)
{
        return c->http && c->transport == c->http;
}

bool connection_has_input(const struct connection *c)
{
        return c->transport && c->transport->kind->has_input(c->transport);
}

bool connection_has_output(const struct connection *c)
{
        return c->transport && c->transport->kind->has_output(c->transport);
}

bool connection_is_read(const struct connection *c)
{
        return c->transport && c->transport->kind->is_read(c->transport);
}

const char *connection_last_stderr(struct connection *c)
{
        return c->transport ? c->transport->kind->last_stderr(c->transport) : "";
}

static void begin(struct connection *c, struct transport *transport)
{
        c->transport = transport;
        c->last_id = 0;
        c->is_modern = false;
}

void connection_open(struct connection *c, const int fds[3])
{
        c->has_only_legacy = false;
        pipes_open(c->pipes, fds);
        begin(c, c->pipes);
}

int connection_open_http(struct connection *c, const int fds[3], struct exchange_loop **loop,
                         bool is_sse)
{
        if (!c->http)
                c->http = http_new(c->base, loop, c->host, c->data);
        if (!c->http) {
                for (int i = 0; i < 3; i++)
                        close(fds[i]);
                return -ENOMEM;
        }
        c->has_only_legacy = is_sse;
        http_open(c->http, fds, is_sse);
        begin(c, c->http);
        return 0;
}

void connection_close(struct connection *c)
{
        /* Forgets also the stderr of a process that was never open. */
        c->pipes->kind->close(c->pipes);
        if (c->http)
                c->http->kind->close(c->http);
        c->transport = NULL;
}

int connection_init(struct connection *c, struct event_base *base,
                    const struct connection_host *host, void *data)
{
        *c = (struct connection){
                .base = base,
                .host = host,
                .data = data,
                .pipes = pipes_new(base, host, data),
                .warn_rate = {.window_us = 60 * 1000000ULL, .most = 10},
        };
        return c->pipes ? 0 : -ENOMEM;
}

void connection_done(struct connection *c)
{
        transport_free(c->pipes);
        transport_free(c->http);
}
