/* What legacy clients were asked. */
#include "supervisor/mcp/asked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"

enum asked_kind { ASKED_PAGE, ASKED_ROOTS };

struct asked_note {
        TAILQ_ENTRY(asked_note) link;
        enum asked_kind kind;
        char name[]; /* of a page: its id, as the client knows it; of roots: the server */
};

static struct asked_note *find(const struct asked *asked, enum asked_kind kind, const char *name)
{
        struct asked_note *note;

        if (asked->n == 0)
                return NULL;
        TAILQ_FOREACH (note, &asked->notes, link) {
                if (note->kind == kind && strcmp(note->name, name) == 0)
                        return note;
        }
        return NULL;
}

static void drop(struct asked *asked, struct asked_note *note)
{
        TAILQ_REMOVE(&asked->notes, note, link);
        asked->n--;
        free(note);
}

static void keep(struct asked *asked, enum asked_kind kind, const char *name)
{
        size_t n = strlen(name);

        if (find(asked, kind, name))
                return;
        struct asked_note *note = malloc(sizeof(*note) + n + 1);
        if (!note) {
                log_warning("what a client was asked is not kept: out of memory");
                return;
        }
        note->kind = kind;
        memcpy(note->name, name, n + 1);
        if (asked->n >= ASKED_MAX)
                drop(asked, TAILQ_FIRST(&asked->notes));
        if (asked->n++ == 0)
                TAILQ_INIT(&asked->notes);
        TAILQ_INSERT_TAIL(&asked->notes, note, link);
}

void asked_done(struct asked *asked)
{
        while (asked->n > 0)
                drop(asked, TAILQ_FIRST(&asked->notes));
}

/* What published code asks has no server that could come back to it. */
void asked_note(struct mcp_peer *peer, const struct client_ask *ask)
{
        const char *page = client_request_page(&ask->request);

        if (ask->server && page)
                keep(&peer->asked, ASKED_PAGE, page);
        if (ask->server && ask->request.kind == CLIENT_ROOTS)
                keep(&peer->asked, ASKED_ROOTS, ask->server);
}

static void tell(struct mcp_peer *peer, const char *id)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(2 * CLIENT_PAGE_MAX + 64);

        int r = buffer_append_text(&params, "{\"elicitationId\":");
        if (r >= 0)
                r = json_append_string(&params, id, strlen(id));
        if (r >= 0)
                r = buffer_append(&params, "}", 1);
        if (r >= 0)
                mcp_notify(peer->legacy.reply.sink, "notifications/elicitation/complete", &params);
}

void asked_page_done(struct mcp_server *server, const char *name, const char *id, size_t n)
{
        char page[CLIENT_PAGE_MAX + 1];
        struct mcp_peer *peer;

        if (client_page_name(page, name, id, n) < 0)
                return;
        LIST_FOREACH (peer, &server->peers, link) {
                struct asked_note *note = find(&peer->asked, ASKED_PAGE, page);

                if (!note)
                        continue;
                drop(&peer->asked, note);
                tell(peer, page);
        }
}

void asked_roots_changed(struct mcp_peer *peer)
{
        const struct tool_provider *tools = &peer->server->tools;
        const struct asked_note *note;

        if (peer->asked.n == 0 || !tools->roots_changed)
                return;
        TAILQ_FOREACH (note, &peer->asked.notes, link) {
                if (note->kind == ASKED_ROOTS)
                        tools->roots_changed(tools->data, note->name);
        }
}
