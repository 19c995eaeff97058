/* A client and its messages. */
#include "supervisor/mcp/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "supervisor/mcp/call/ask.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/late.h"
#include "supervisor/mcp/methods.h"
#include "supervisor/mcp/resources/resource-read.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/tasks.h"
#include "supervisor/service/metrics.h"

enum { SMALL_MAX = 1024 * 1024, VERSION_SHOWN = 64 };

#define ID_IN_USE "the id is in use by another request"

int mcp_peer_new(struct mcp_peer **ret, struct mcp_server *server, struct mcp_principal *principal,
                 struct mcp_sink *sink, struct error *err)
{
        struct mcp_peer *peer = calloc(1, sizeof(*peer));

        if (!peer)
                return error_errno(err, ENOMEM, "MCP client");
        *peer = (struct mcp_peer){
                .server = server,
                .principal = principal ? principal : &server->owner,
                .version = MCP_2025_11_25,
                .log_level = MCP_LOG_OFF,
                .transport = "pipe",
                .began_us = clock_us(),
                .capabilities = BUFFER_INIT(PEER_CAPABILITIES_MAX),
                .legacy = {.peer = peer, .reply = {.sink = mcp_sink_ref(sink)}},
        };
        peer->principal->server = server;
        mcp_asks_init(&peer->asks, peer->principal, NULL);
        LIST_INSERT_HEAD(&server->peers, peer, link);
        *ret = peer;
        return 0;
}

struct mcp_peer *mcp_peer_free(struct mcp_peer *peer)
{
        if (!peer)
                return NULL;
        mcp_peer_count(peer);
        mcp_call_drop(peer);
        mcp_ask_drop(&peer->asks);
        resource_read_drop(peer);
        tasks_drop_peer(peer);
        subscriptions_drop(peer);
        LIST_REMOVE(peer, link);
        subscription_done(&peer->legacy);
        notified_done(peer);
        buffer_done(&peer->capabilities);
        free(peer);
        return NULL;
}

static void answer_unsupported(const struct mcp_request *request, struct reply *reply,
                               const char *why)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(SMALL_MAX);
        struct json_out out = {.to = &data};
        size_t n = 0;
        const char *version = json_string(yyjson_obj_get(request->params, "_meta"), META_VERSION,
                                          &n);

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "supported", '[');
        json_out_text(&out, NULL, MCP_MODERN_VERSION);
        json_out_end(&out, ']');
        json_out_string(&out, "requested", version, n < VERSION_SHOWN ? n : VERSION_SHOWN);
        json_out_end(&out, '}');
        reply_error_data(reply, MCP_UNSUPPORTED_VERSION, why, out.error >= 0 ? &data : NULL);
}

/* Whether a request of the client has this id. cancels: it gets no answer. */
static bool is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels)
{
        return mcp_call_is_pending(peer, id, cancels) ||
               resource_read_is_pending(peer, id, cancels) ||
               subscriptions_is_open(peer, id, cancels) || tasks_wait_is_pending(peer, id, cancels);
}

static void take_request(struct mcp_peer *peer, struct mcp_sink *sink,
                         const struct jsonrpc_message *message, struct batch *batch)
{
        struct mcp_request request;
        struct reply reply;
        struct error err = {};

        if (reply_init(&reply, message->id, sink, batch) < 0) {
                reply_error(&reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        int code = mcp_request_read(message->params, &request, &err);
        request.peer = peer;
        if (!*request.trace.id && peer->trace)
                request.trace = *peer->trace;
        mcp_method_begin(message, &request, &reply.operation);
        if (code == MCP_UNSUPPORTED_VERSION)
                reply.operation.version = METRIC_OTHER;
        reply.modern = request.era == ERA_MODERN;
        if (code == 0 && reply.modern)
                mcp_note_can(peer->server, request.can);
        if (is_pending(peer, reply_id(&reply), false)) /* answers would be ambiguous */
                reply_error(&reply, JSONRPC_INVALID_REQUEST, ID_IN_USE);
        else if (batch && reply.modern)
                reply_error(&reply, JSONRPC_INVALID_REQUEST,
                            "batches are not part of this protocol version");
        else if (code == MCP_UNSUPPORTED_VERSION)
                answer_unsupported(&request, &reply, err.text);
        else if (code != 0)
                reply_error(&reply, code, err.text);
        else
                mcp_method_run(message, &request, &reply);
}

static void take_notification(struct mcp_peer *peer, const struct jsonrpc_message *message)
{
        if (jsonrpc_method_is(message, "notifications/cancelled")) {
                if (!is_pending(peer, yyjson_obj_get(message->params, "requestId"), true))
                        log_debug("a cancelled request is not under way");
        } else if (jsonrpc_method_is(message, "notifications/initialized")) {
                mcp_client_is_ready(peer, ERA_LEGACY);
        } else if (jsonrpc_method_is(message, "notifications/roots/list_changed")) {
                notified_roots_changed(peer);
        }
}

static void answer_invalid(struct mcp_peer *peer, struct mcp_sink *sink, yyjson_val *id, int code,
                           const char *why, struct batch *batch)
{
        struct reply reply = {.sink = mcp_sink_ref(sink), .batch = batch};

        if (id) {
                reply_done(&reply);
                if (reply_init(&reply, id, sink, batch) < 0)
                        log_warning("out of memory for the id of a request");
        }
        reply.null_id = peer->version < MCP_2025_11_25;
        reply_error(&reply, code, why);
}

static void take_message(struct mcp_peer *peer, struct mcp_sink *sink,
                         const struct jsonrpc_message *message, struct batch *batch)
{
        if (message->kind == JSONRPC_REQUEST) {
                if (batch)
                        batch_expect(batch);
                take_request(peer, sink, message, batch);
        } else if (message->kind == JSONRPC_NOTIFICATION) {
                take_notification(peer, message);
        } else if (!mcp_ask_response(&peer->asks, message) && !mcp_call_response(peer, message) &&
                   !late_asks_response(&peer->principal->late, message->id)) {
                log_debug("a response to no request");
        }
}

/* The requests of a batch are answered together: their ids are in use until all of it was read. */
struct batch_ids {
        size_t n;
        yyjson_val *ids[JSONRPC_BATCH_MAX];
};

static bool is_repeated(struct batch_ids *seen, const struct jsonrpc_message *message)
{
        if (message->kind != JSONRPC_REQUEST)
                return false;
        for (size_t i = 0; i < seen->n; i++) {
                if (jsonrpc_id_equals(seen->ids[i], message->id))
                        return true;
        }
        seen->ids[seen->n++] = message->id;
        return false;
}

/* Of what jsonrpc_parse() returned. */
static int code_of(int r)
{
        static const int codes[] = {[EBADMSG] = JSONRPC_PARSE_ERROR,
                                    [EINVAL] = JSONRPC_INVALID_REQUEST,
                                    [ENOTUNIQ] = JSONRPC_INVALID_PARAMS,
                                    [ENOMEM] = JSONRPC_INTERNAL_ERROR};

        return codes[-r];
}

static void take_batch(struct mcp_peer *peer, struct mcp_sink *sink,
                       const struct jsonrpc_message *message)
{
        struct batch_ids seen = {};
        size_t i, n;
        yyjson_val *element;
        struct batch *batch;

        if (peer->initialized && peer->version != MCP_2025_03_26) {
                answer_invalid(peer, sink, NULL, JSONRPC_INVALID_REQUEST,
                               "batches are not part of this protocol version", NULL);
                return;
        }
        batch = batch_new(sink);
        if (!batch)
                return;
        yyjson_arr_foreach (message->batch, i, n, element) {
                struct jsonrpc_message one;
                struct error err = {};

                int r = jsonrpc_classify(element, &one, &err);
                if (r >= 0 && is_repeated(&seen, &one))
                        r = error_set(&err, EINVAL, ID_IN_USE);
                if (r < 0) {
                        batch_expect(batch);
                        answer_invalid(peer, sink, one.id, code_of(r), err.text, batch);
                } else {
                        take_message(peer, sink, &one, batch);
                }
        }
        batch_step(batch);
}

/* A line that is not JSON because only bytes that are not UTF-8 make it invalid is answered with the id of the request. */
void mcp_peer_line(struct mcp_peer *peer, struct mcp_sink *sink, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct error err = {};

        int r = jsonrpc_parse(line, n, &message, &err);
        if (r != -EBADMSG) {
                mcp_peer_parsed(peer, sink, &message, r, &err);
                return;
        }
        _cleanup_json_ yyjson_doc *doc = yyjson_read(
                line, n, YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_INVALID_UNICODE);
        yyjson_val *id = yyjson_obj_get(yyjson_doc_get_root(doc), "id");
        answer_invalid(peer, sink, json_is_integer(id) ? id : NULL, JSONRPC_PARSE_ERROR, err.text,
                       NULL);
}

void mcp_peer_parsed(struct mcp_peer *peer, struct mcp_sink *sink,
                     const struct jsonrpc_message *message, int r, const struct error *err)
{
        if (r < 0)
                answer_invalid(peer, sink, message->id, code_of(r), err->text, NULL);
        else if (message->kind == JSONRPC_BATCH)
                take_batch(peer, sink, message);
        else
                take_message(peer, sink, message, NULL);
}

void mcp_peer_too_long(struct mcp_peer *peer, struct mcp_sink *sink, size_t most)
{
        char text[96];

        snprintf(text, sizeof(text), "a message above %zu bytes was skipped", most);
        answer_invalid(peer, sink, NULL, JSONRPC_INVALID_REQUEST, text, NULL);
}
