/* The requests of a legacy server to our client. */
#include "supervisor/hub/server/requests.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/hub/call/call.h"
#include "supervisor/hub/call/input.h"

enum { ASKS_MAX = 4 };

void hub_server_unask(struct hub_server *s, yyjson_val *id)
{
        hub_calls_unask(s->calls, id);
        questions_withdraw(&s->questions, id);
}

void hub_server_on_answered(void *data, struct question *q, yyjson_val *answer, const char *result,
                            const char *why)
{
        struct hub_server *s = data;
        yyjson_val *id = yyjson_doc_get_root(q->id);

        if (result)
                connection_respond(s->connection, id, result);
        else
                connection_refuse(s->connection, id, JSONRPC_INTERNAL_ERROR, why);
        question_end(q);
}

/* Asks the owner's client. Takes the request. */
static int ask_owner(struct hub_server *s, struct client_request *request, yyjson_val *id,
                     struct error *err)
{
        const struct hub_host *owner = s->host->owner;
        yyjson_doc *copy = NULL;

        if (!owner->ask)
                return error_set(err, EOPNOTSUPP, "there is no client that could be asked");
        if (s->questions.n >= ASKS_MAX)
                return error_set(err, EBUSY, "the server asks for too much at once");
        int r = jsonrpc_id_copy(id, CLIENT_ASK_ID_MAX, &copy);
        if (r < 0)
                return error_errno(err, -r, "ask");
        struct question *q = questions_add(&s->questions, request, s->config->name, copy, NULL);
        if (!q)
                return error_errno(err, ENOMEM, "ask");
        r = owner->ask(owner->data, &q->ask, err);
        if (r < 0)
                question_refused(q, request);
        return r;
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

        return s->host->can;
}

bool hub_server_on_ask(struct hub_server *s, const struct jsonrpc_message *m)
{
        _cleanup_client_request_ struct client_request request = {};
        struct error err = {};
        const char *why = NULL;

        int r = client_request_read(&request, s->config->name, m->method, m->method_length,
                                    m->params, &err);
        /* A call whose server asks a person fails with ToolInputRequired if the client does not support it. Other
         * undeclared requests get "Method not found". */
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
        if (request.kind == CLIENT_ROOTS && s->calls->count == 0)
                why = ask_owner(s, &request, m->id, &err) < 0 ? err.text : NULL;
        if (why)
                connection_refuse(s->connection, m->id, JSONRPC_INTERNAL_ERROR, why);
        return true;
}
