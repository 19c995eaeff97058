/* Requests to clients. */
#include "supervisor/mcp/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/call-internal.h"
#include "supervisor/session/cell/cell-client.h"
#include "supervisor/session/machine/cell-time.h"

enum { REQUEST_MAX = 2 * CLIENT_SAMPLE_MAX };

static void ask_free(struct mcp_ask *a)
{
        TAILQ_REMOVE(a->list, a, link);
        if (a->call) {
                a->call->n_asks--;
                if (a->call->cell)
                        cell_release(a->call->cell);
        }
        mcp_sink_unref(a->sink);
        free(a);
}

/* Forgets it first: who is told may ask again. */
static void finish(struct mcp_ask *a, yyjson_val *result, const char *why)
{
        struct client_ask *ask = a->ask;

        ask_free(a);
        ask->answered(ask, result, why);
}

void mcp_ask_answer(struct mcp_ask *a, yyjson_val *result)
{
        finish(a, result, NULL);
}

static void send_to(struct mcp_sink *sink, const struct buffer *bytes)
{
        const struct mcp_message message = {.bytes = buffer_bytes(bytes), .n = bytes->length};

        sink->calls->send(sink, &message);
}

static void send_cancelled(const struct mcp_ask *a)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(REQUEST_MAX);

        if (a->sink &&
            buffer_printf(&params,
                          "{\"requestId\":%lld,\"reason\":\"the answer is not needed any more\"}",
                          (long long)a->id) >= 0)
                mcp_notify(a->sink, "notifications/cancelled", &params);
}

static void withdraw(struct client_ask *ask)
{
        struct mcp_ask *a = ask->taker;

        send_cancelled(a);
        ask_free(a);
}

static struct mcp_ask *ask_new(struct mcp_ask_list *list, struct mcp_call *call,
                               struct client_ask *ask)
{
        struct mcp_ask *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        *a = (struct mcp_ask){.list = list, .ask = ask, .call = call};
        TAILQ_INSERT_TAIL(list, a, link);
        if (call) {
                call->n_asks++;
                if (call->cell)
                        cell_hold(call->cell);
        }
        return a;
}

static int send_request(struct mcp_peer *peer, struct mcp_ask *a, struct mcp_sink *sink)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(REQUEST_MAX);
        const struct client_request *request = &a->ask->request;

        a->id = ++peer->server->last_ask;
        int r = jsonrpc_append_request(&message, a->id, client_request_method(request),
                                       buffer_bytes(&request->params), request->params.length);
        if (r < 0)
                return r;
        a->sink = mcp_sink_ref(sink);
        asked_note(peer, a->ask);
        send_to(sink, &message);
        return 0;
}

/* Whether a message that is no answer reaches the client. */
static bool reaches(const struct mcp_sink *sink)
{
        return sink && (!sink->calls->takes_requests || sink->calls->takes_requests(sink)) &&
               !mcp_sink_congested(sink);
}

static int take(struct mcp_ask *a, int r, struct error *err)
{
        if (r < 0) {
                ask_free(a);
                return error_is_set(err) ? r : error_errno(err, -r, "ask the client");
        }
        a->ask->taker = a;
        a->ask->withdraw = withdraw;
        return 0;
}

int mcp_ask_peer(struct mcp_peer *peer, struct client_ask *ask, struct error *err)
{
        struct mcp_sink *sink = peer->legacy.reply.sink;
        unsigned needs = ask->request.needs;
        size_t n = 0;
        struct mcp_ask *a;

        TAILQ_FOREACH (a, &peer->asks, link)
                n++;
        if ((peer->can & needs) != needs || !reaches(sink))
                return error_set(err, EOPNOTSUPP, "the client does not declare that it can");
        if (n >= MCP_ASKS_MAX)
                return error_set(err, EBUSY, "the client is asked for too much at once");
        a = ask_new(&peer->asks, NULL, ask);
        if (!a)
                return error_errno(err, ENOMEM, "ask the client");
        return take(a, send_request(peer, a, sink), err);
}

int mcp_ask_call(struct mcp_call *call, struct client_ask *ask, struct error *err)
{
        unsigned needs = ask->request.needs;

        if (call->cancelled || (call->can & needs) != needs)
                return error_set(err, EOPNOTSUPP, "the client does not declare that it can");
        if (call->n_asks >= MCP_ASKS_MAX)
                return error_set(err, EBUSY, "the client is asked for too much at once");
        if (!call->modern && (!call->peer || !reaches(call->reply.sink)))
                return error_set(err, ENOTCONN, "the client takes no requests on this stream");
        struct mcp_ask *a = ask_new(&call->asks, call, ask);
        if (!a)
                return error_errno(err, ENOMEM, "ask the client");
        int r = call->modern ? mcp_input_ask(call, err)
                             : send_request(call->peer, a, call->reply.sink);
        return take(a, r, err);
}

void mcp_ask_end(struct mcp_call *call, const char *why)
{
        struct mcp_ask *a;

        while ((a = TAILQ_FIRST(&call->asks))) {
                send_cancelled(a);
                finish(a, NULL, why);
        }
}

void mcp_ask_drop(struct mcp_peer *peer)
{
        struct mcp_ask *a;

        while ((a = TAILQ_FIRST(&peer->asks)))
                finish(a, NULL, "the client has gone");
}

/* Only among what this client was asked: the answer of another one counts for nothing. */
static struct mcp_ask *find(const struct mcp_peer *peer, yyjson_val *id)
{
        struct mcp_ask *a;

        TAILQ_FOREACH (a, &peer->asks, link) {
                if (jsonrpc_id_is(id, a->id))
                        return a;
        }
        for (struct mcp_call *call = peer->server->calls; call; call = call->next) {
                if (call->peer != peer || call->modern)
                        continue;
                TAILQ_FOREACH (a, &call->asks, link) {
                        if (jsonrpc_id_is(id, a->id))
                                return a;
                }
        }
        return NULL;
}

bool mcp_ask_response(struct mcp_peer *peer, const struct jsonrpc_message *message)
{
        struct mcp_ask *a = message->id ? find(peer, message->id) : NULL;

        if (!a)
                return false;
        if (message->kind == JSONRPC_RESPONSE) {
                finish(a, message->result, NULL);
        } else {
                char why[256];

                snprintf(why, sizeof(why), "the client answers with an error: %.180s",
                         message->error_message);
                finish(a, NULL, why);
        }
        return true;
}
