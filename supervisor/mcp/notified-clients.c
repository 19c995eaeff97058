/* Notes about requests to legacy clients. */
#include "supervisor/mcp/notified-clients.h"

#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "supervisor/mcp/state.h"

enum note_kind { NOTE_PAGE, NOTE_ROOTS };

enum { NOTES_MAX = 64 }; /* of a client; a new one replaces the oldest */

struct note {
        TAILQ_ENTRY(note) link;
        enum note_kind kind;
        char name[]; /* of a page: its id, as the client has it; of roots: the server */
};

static struct note *find(const struct notes *notes, enum note_kind kind, const char *name)
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

static void drop(struct notes *notes, struct note *note)
{
        TAILQ_REMOVE(&notes->list, note, link);
        notes->n--;
        free(note);
}

static void keep(struct notes *notes, enum note_kind kind, const char *name)
{
        size_t n = strlen(name);

        if (find(notes, kind, name))
                return;
        struct note *note = malloc(sizeof(*note) + n + 1);
        if (!note) {
                log_warning("what a client was asked is not kept: out of memory");
                return;
        }
        note->kind = kind;
        memcpy(note->name, name, n + 1);
        if (notes->n >= NOTES_MAX)
                drop(notes, TAILQ_FIRST(&notes->list));
        if (notes->n++ == 0)
                TAILQ_INIT(&notes->list);
        TAILQ_INSERT_TAIL(&notes->list, note, link);
}

void notified_done(struct mcp_peer *peer)
{
        struct notes *notes = &peer->notes;

        while (notes->n > 0)
                drop(notes, TAILQ_FIRST(&notes->list));
}

/* A request of published code has no server that could refer to it later. */
void notified_keep(struct mcp_peer *peer, const struct client_ask *ask)
{
        const char *page = client_request_page(&ask->request);

        if (ask->server && page)
                keep(&peer->notes, NOTE_PAGE, page);
        if (ask->server && ask->request.kind == CLIENT_ROOTS)
                keep(&peer->notes, NOTE_ROOTS, ask->server);
}

static void tell(struct mcp_peer *peer, const char *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(2 * CLIENT_PAGE_MAX + 64);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "elicitationId", id);
        json_out_end(&out, '}');
        if (out.error >= 0)
                mcp_sink_notify(peer->legacy.reply.sink, "notifications/elicitation/complete",
                                &params);
}

void notified_page_done(struct mcp_server *server, const char *name, const char *id, size_t n)
{
        char page[CLIENT_PAGE_MAX + 1];
        struct mcp_peer *peer;

        if (client_page_name(page, name, id, n) < 0)
                return;
        LIST_FOREACH (peer, &server->peers, link) {
                struct note *note = find(&peer->notes, NOTE_PAGE, page);

                if (!note)
                        continue;
                drop(&peer->notes, note);
                tell(peer, page);
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
                        tools->roots_changed(tools->data, note->name);
        }
}
