/*
 * What a legacy server asks our client for.
 *
 * A request is passed on for a call of the server's (call-ask.c). A server that works on no call may ask
 * for roots only, as many do when they have started, and only the owner's own client is asked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/hub/server-internal.h"

enum { ASKS_MAX = 4 };

struct server_ask {
        struct client_ask ask; /* first */
        struct server_ask *next;
        struct hub_server *server;
        struct event *deadline;
        yyjson_doc *id;
};

static void ask_free(struct server_ask *ask)
{
        struct server_ask **at = &ask->server->asks;

        while (*at != ask)
                at = &(*at)->next;
        *at = ask->next;
        ask->server->n_asks--;
        if (ask->deadline)
                event_free(ask->deadline);
        client_request_done(&ask->ask.request);
        yyjson_doc_free(ask->id);
        free(ask);
}

static void withdraw(struct server_ask *ask)
{
        if (ask->ask.withdraw)
                ask->ask.withdraw(&ask->ask);
        ask_free(ask);
}

void hub_server_drop_asks(struct hub_server *s)
{
        while (s->asks)
                withdraw(s->asks);
        if (s->roots_due)
                event_free(s->roots_due);
        s->roots_due = NULL;
}

void hub_server_unask(struct hub_server *s, yyjson_val *id)
{
        hub_calls_unask(s->calls, id);
        for (struct server_ask *ask = s->asks; ask; ask = ask->next) {
                if (jsonrpc_id_equals(yyjson_doc_get_root(ask->id), id)) {
                        withdraw(ask);
                        return;
                }
        }
}

static void on_answered(struct client_ask *client_ask, yyjson_val *answer, const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(CLIENT_ANSWER_MAX);
        struct server_ask *ask = (struct server_ask *)client_ask;
        yyjson_val *id = yyjson_doc_get_root(ask->id);
        struct error err = {};
        int r = 0;

        if (answer)
                r = client_answer_take(&client_ask->request, answer, &result, &err);
        if (r >= 0)
                r = buffer_append(&result, "", 1);
        if (answer && r >= 0)
                connection_respond(ask->server->connection, id, buffer_bytes(&result));
        else
                connection_refuse(ask->server->connection, id, JSONRPC_INTERNAL_ERROR,
                                  error_is_set(&err) ? err.text
                                  : why              ? why
                                                     : strerror(ENOMEM));
        ask_free(ask);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct server_ask *ask = data;

        (void)fd;
        (void)what;
        if (ask->ask.withdraw)
                ask->ask.withdraw(&ask->ask);
        on_answered(&ask->ask, NULL, "nobody has answered in time");
}

/* Asks the owner's client. Takes the request. */
static int ask_owner(struct hub_server *s, struct client_request *request, yyjson_val *id,
                     struct error *err)
{
        const struct timeval in = clock_timeval_ms(CALL_ASK_MS);

        if (s->n_asks >= ASKS_MAX)
                return error_set(err, EBUSY, "the server asks for too much at once");
        struct server_ask *ask = calloc(1, sizeof(*ask));
        if (!ask)
                return error_errno(err, ENOMEM, "ask");
        *ask = (struct server_ask){
                .ask = {.request = *request, .server = s->config->name, .answered = on_answered},
                .next = s->asks,
                .server = s};
        *request = (struct client_request){};
        s->asks = ask;
        s->n_asks++;
        ask->deadline = evtimer_new(s->host->base, on_deadline, ask);
        int r = ask->deadline ? jsonrpc_id_copy(id, CLIENT_ASK_ID_MAX, &ask->id) : -ENOMEM;
        if (r < 0)
                error_errno(err, -r, "ask");
        else
                r = s->host->ask(s->host->data, &ask->ask, err);
        if (r < 0) {
                ask_free(ask);
                return r;
        }
        event_add(ask->deadline, &in);
        return 0;
}

/* ---- roots ---- */

static void on_roots_due(evutil_socket_t fd, short what, void *data)
{
        static const char method[] = "notifications/roots/list_changed";
        const struct hub_server *s = data;

        if (s->state == SERVER_READY)
                connection_notify(s->connection, method, NULL, 0);
}

void hub_server_roots_changed(struct hub_server *s)
{
        const struct timeval in = clock_timeval_ms(SERVER_ROOTS_MS);

        /* MCP 2026-07-28 has no such notification. */
        if (s->state != SERVER_READY || !(s->declared & CLIENT_TELLS_ROOTS) ||
            handshake_speaks(s->handshake) != HUB_ERA_LEGACY)
                return;
        if (!s->roots_due)
                s->roots_due = evtimer_new(s->host->base, on_roots_due, s);
        if (s->roots_due && !evtimer_pending(s->roots_due, NULL))
                event_add(s->roots_due, &in);
}

/* ---- requests ---- */

unsigned hub_server_client_can(void *data)
{
        const struct hub_server *s = data;

        return s->host->can(s->host->data);
}

bool hub_server_on_ask(struct hub_server *s, const struct jsonrpc_message *m)
{
        _cleanup_client_request_ struct client_request request = {};
        struct error err = {};
        const char *why = NULL;

        int r = client_request_read(&request, s->config->name, m->method, m->method_length,
                                    m->params, &err);
        /* A person who cannot be asked is told of, but nothing else that was not declared is known. */
        bool is_known = request.kind == CLIENT_FORM || request.kind == CLIENT_URL ||
                        (hub_server_client_can(s) & request.needs) == request.needs;
        if (r == -EOPNOTSUPP || (r >= 0 && !is_known))
                return false;
        if (r < 0) {
                connection_refuse(s->connection, m->id, JSONRPC_INVALID_PARAMS, err.text);
                return true;
        }
        if (!rate_allow(&s->unnamed, 1, NULL)) {
                connection_refuse(s->connection, m->id, JSONRPC_INTERNAL_ERROR,
                                  "the server asks too often");
                return true;
        }
        struct hub_call *call = hub_calls_attribute(s->calls, m->params, &why);
        if (call) {
                hub_call_ask(call, &request, m->id);
                return true;
        }
        if (request.kind == CLIENT_ROOTS && hub_calls_count(s->calls) == 0)
                why = ask_owner(s, &request, m->id, &err) < 0 ? err.text : NULL;
        if (why)
                connection_refuse(s->connection, m->id, JSONRPC_INTERNAL_ERROR, why);
        return true;
}
