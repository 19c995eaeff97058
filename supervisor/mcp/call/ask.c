/* Requests to clients, and notes about those to legacy clients. */
#include "supervisor/mcp/call/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/call/late.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/queue.h"

enum { REQUEST_MAX = 2 * CLIENT_SAMPLE_MAX };

/* ---- notes ---- */

enum note_kind { NOTE_PAGE, NOTE_ROOTS };

enum { NOTES_MAX = 64 }; /* of a client; a new one replaces the oldest */

struct note {
        TAILQ_ENTRY(note) link;
        enum note_kind kind;
        char name[]; /* of a page: its id, as the client has it; of roots: the server */
};

static struct note *find_note(const struct notes *notes, enum note_kind kind, const char *name)
{
        struct note *note;

        if (notes->n == 0)
                return NULL;
        TAILQ_FOREACH (note, &notes->list, link) {
                if (note->kind == kind && strcmp(note->name, name) == 0)
                        return note;
        }
        return NULL;
}

static void drop_note(struct notes *notes, struct note *note)
{
        TAILQ_REMOVE(&notes->list, note, link);
        notes->n--;
        free(note);
}

static void keep_note(struct notes *notes, enum note_kind kind, const char *name)
{
        size_t n = strlen(name);

        if (find_note(notes, kind, name))
                return;
        struct note *note = malloc(sizeof(*note) + n + 1);
        if (!note) {
                log_warning("what a client was asked is not kept: out of memory");
                return;
        }
        note->kind = kind;
        memcpy(note->name, name, n + 1);
        if (notes->n >= NOTES_MAX)
                drop_note(notes, TAILQ_FIRST(&notes->list));
        if (notes->n++ == 0)
                TAILQ_INIT(&notes->list);
        TAILQ_INSERT_TAIL(&notes->list, note, link);
}

void notified_done(struct mcp_peer *peer)
{
        struct notes *notes = &peer->notes;

        while (notes->n > 0)
                drop_note(notes, TAILQ_FIRST(&notes->list));
}

/* A request of published code has no server that could refer to it later. */
static void keep_notes(struct mcp_peer *peer, const struct client_ask *ask)
{
        const char *page = client_request_page(&ask->request);

        if (ask->server && page)
                keep_note(&peer->notes, NOTE_PAGE, page);
        if (ask->server && ask->request.kind == CLIENT_ROOTS)
                keep_note(&peer->notes, NOTE_ROOTS, ask->server);
}

/* The principal whose clients must open the page, if it has this key or key is NULL. NULL: there is none, or servers gave
 * the id to several. */
static const struct mcp_principal *page_principal(const struct mcp_server *server, const char *key,
                                                  const char *page)
{
        const struct mcp_principal *found = NULL;
        const struct mcp_peer *peer;

        LIST_FOREACH (peer, &server->peers, link) {
                if ((key && strcmp(peer->principal->key, key) != 0) ||
                    !find_note(&peer->notes, NOTE_PAGE, page))
                        continue;
                if (found && found != peer->principal)
                        return NULL;
                found = peer->principal;
        }
        return found;
}

void notified_page_done(struct mcp_server *server, const char *name, const char *principal,
                        const char *id, size_t n)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(2 * CLIENT_PAGE_MAX + 64);
        char page[CLIENT_PAGE_MAX + 1];
        struct mcp_peer *peer;

        if (client_page_name(page, name, id, n) < 0)
                return;
        const struct mcp_principal *of = page_principal(server, principal, page);
        if (!of)
                return;
        LIST_FOREACH (peer, &server->peers, link) {
                struct note *note = peer->principal == of ? find_note(&peer->notes, NOTE_PAGE, page)
                                                          : NULL;
                struct json_out out = {.to = &params};

                if (!note)
                        continue;
                drop_note(&peer->notes, note);
                buffer_consume(&params, params.length);
                json_out_begin(&out, NULL, '{');
                json_out_text(&out, "elicitationId", page);
                mcp_sink_notify_out(peer->legacy.reply.sink, "notifications/elicitation/complete",
                                    &out);
        }
}

void notified_roots_changed(struct mcp_peer *peer)
{
        const struct tool_provider *tools = &peer->server->tools;
        const struct note *note;

        if (peer->notes.n == 0 || !tools->roots_changed)
                return;
        TAILQ_FOREACH (note, &peer->notes.list, link) {
                if (note->kind == NOTE_ROOTS)
                        tools->roots_changed(tools->data, note->name, peer->principal->key);
        }
}

/* ---- requests ---- */

struct mcp_ask {
        TAILQ_ENTRY(mcp_ask) link;
        struct mcp_asks *asks;
        struct client_ask *ask;
        struct mcp_sink *sink;    /* a reference: where the request was sent; NULL: not at all */
        int64_t id;               /* of the request */
        struct hold_request hold; /* of a question to a person, whose session stands still */
};

void mcp_asks_init(struct mcp_asks *asks, struct mcp_principal *principal, struct cell *const *cell)
{
        *asks = (struct mcp_asks){.cell = cell, .late = &principal->late};
        TAILQ_INIT(&asks->list);
}

/* The time of the cell stands still. If a person decides, the session does. */
static void hold(struct mcp_ask *a, struct cell *cell)
{
        struct error error = {};

        cell_hold(cell);
        if (a->ask->request.kind <= CLIENT_URL &&
            session_hold(cell->session, &a->hold, &error) < 0 && error.code != ENOTCONN)
                log_warning("%s", error.text);
}

static void ask_free(struct mcp_ask *a)
{
        struct mcp_asks *asks = a->asks;

        TAILQ_REMOVE(&asks->list, a, link);
        asks->n--;
        late_asks_keep(asks->late, a->id, a->ask);
        session_hold_drop(&a->hold);
        if (asks->cell && *asks->cell)
                cell_release(*asks->cell);
        mcp_sink_unref(a->sink);
        free(a);
}

/* Frees it first: its asker may ask again. */
static void finish(struct mcp_ask *a, yyjson_val *result, const char *why)
{
        struct client_ask *ask = a->ask;

        ask_free(a);
        ask->answered(ask, result, why);
}

static void send_cancelled(const struct mcp_ask *a)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(REQUEST_MAX);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "requestId", a->id);
        json_out_text(&out, "reason", "the answer is not needed any more");
        if (a->sink)
                mcp_sink_notify_out(a->sink, "notifications/cancelled", &out);
}

static void withdraw(struct client_ask *ask)
{
        struct mcp_ask *a = ask->taker;

        send_cancelled(a);
        ask_free(a);
}

int mcp_ask_keep(struct mcp_asks *asks, struct mcp_server *server, struct client_ask *ask,
                 struct error *err)
{
        if (asks->n >= MCP_ASKS_MAX)
                return error_set(err, EBUSY, "the client is asked for too much at once");
        struct mcp_ask *a = calloc(1, sizeof(*a));
        if (!a)
                return error_errno(err, ENOMEM, "ask the client");
        *a = (struct mcp_ask){.asks = asks, .ask = ask, .id = ++server->last_ask};
        TAILQ_INSERT_TAIL(&asks->list, a, link);
        asks->n++;
        if (asks->cell && *asks->cell)
                hold(a, *asks->cell);
        ask->taker = a;
        ask->withdraw = withdraw;
        return 0;
}

/* Whether a message that is not an answer reaches the client. */
static bool reaches(const struct mcp_sink *sink)
{
        return sink && (!sink->calls->takes_requests || sink->calls->takes_requests(sink)) &&
               !mcp_sink_congested(sink);
}

int mcp_ask_send(struct mcp_asks *asks, struct mcp_peer *peer, struct mcp_sink *sink,
                 struct client_ask *ask, struct error *err)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(REQUEST_MAX);
        const struct client_request *request = &ask->request;

        if (!reaches(sink))
                return error_set(err, ENOTCONN, "the client takes no requests on this stream");
        int r = mcp_ask_keep(asks, peer->server, ask, err);
        if (r < 0)
                return r;
        struct mcp_ask *a = ask->taker;
        r = jsonrpc_append_request(&message, a->id, client_request_method(request),
                                   buffer_bytes(&request->params), request->params.length);
        if (r < 0) {
                ask_free(a);
                return error_errno(err, -r, "ask the client");
        }
        a->sink = mcp_sink_ref(sink);
        keep_notes(peer, ask);
        mcp_sink_send(sink, &message, false, 0);
        return 0;
}

int mcp_ask_peer(struct mcp_peer *peer, struct client_ask *ask, struct error *err)
{
        struct mcp_sink *sink = peer->legacy.reply.sink;
        unsigned needs = ask->request.needs;

        if ((peer->can & needs) != needs || !reaches(sink))
                return error_set(err, EOPNOTSUPP, "the client does not declare that it can");
        return mcp_ask_send(&peer->asks, peer, sink, ask, err);
}

uint32_t mcp_ask_patience(const struct mcp_asks *asks)
{
        const struct mcp_ask *a;
        uint32_t most = 0;

        TAILQ_FOREACH (a, &asks->list, link)
                most = a->ask->patience_ms > most ? a->ask->patience_ms : most;
        return most;
}

void mcp_ask_put(struct json_out *out, const char *key, const struct mcp_asks *asks)
{
        const struct mcp_ask *a;
        char name[ASK_NAME_SIZE];

        json_out_begin(out, key, '{');
        TAILQ_FOREACH (a, &asks->list, link) {
                const struct client_request *request = &a->ask->request;

                ask_name(a->id, name);
                json_out_begin(out, name, '{');
                json_out_text(out, "method", client_request_method(request));
                json_out_buffer(out, "params", &request->params);
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
}

static struct mcp_ask *find_name(const struct mcp_asks *asks, yyjson_val *key)
{
        struct mcp_ask *a;
        char name[ASK_NAME_SIZE];

        TAILQ_FOREACH (a, &asks->list, link) {
                ask_name(a->id, name);
                if (yyjson_equals_str(key, name))
                        return a;
        }
        return NULL;
}

void mcp_ask_give(struct mcp_asks *asks, yyjson_val *responses, const bool *gone)
{
        size_t i, n;
        yyjson_val *key, *value;

        yyjson_obj_foreach (responses, i, n, key, value) {
                struct mcp_ask *a = find_name(asks, key);
                if (a)
                        finish(a, value, NULL);
                else
                        late_asks_answer(asks->late, key);
                if (*gone)
                        return;
        }
}

bool mcp_ask_response(struct mcp_asks *asks, const struct jsonrpc_message *message)
{
        struct mcp_ask *a = TAILQ_FIRST(&asks->list);
        char why[256];

        while (a && !(message->id && jsonrpc_id_is(message->id, a->id)))
                a = TAILQ_NEXT(a, link);
        if (!a)
                return false;
        snprintf(why, sizeof(why), "the client answers with an error: %.180s",
                 message->kind == JSONRPC_RESPONSE ? "" : message->error_message);
        if (message->kind == JSONRPC_RESPONSE)
                finish(a, message->result, NULL);
        else
                finish(a, NULL, why);
        return true;
}

void mcp_ask_end(struct mcp_asks *asks, const char *why)
{
        struct mcp_ask *a;

        while ((a = TAILQ_FIRST(&asks->list))) {
                send_cancelled(a);
                finish(a, NULL, why);
        }
}

void mcp_ask_drop(struct mcp_asks *asks)
{
        struct mcp_ask *a;

        while ((a = TAILQ_FIRST(&asks->list)))
                finish(a, NULL, "the client has gone");
}
