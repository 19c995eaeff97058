/* Sends the catalogue of tools. */
#include "supervisor/session/machine/catalogue.h"

#include <string.h>

#include "supervisor/session/machine/machine.h"

void session_send_catalogue(struct session *s)
{
        const struct tool_provider *tools = &s->context->tools;
        uint64_t version = 0;
        const struct buffer *catalogue = tools->catalogue(tools->data, s->profile, &version);

        if (!catalogue || version <= s->catalogue)
                return;
        int r = channel_send(&s->channel, FRAME_CATALOG, version, buffer_bytes(catalogue),
                             catalogue->length);
        if (r < 0)
                log_warning("session %s: catalogue of %zu bytes not sent: %s", s->name,
                            catalogue->length, strerror(-r));
        else
                s->catalogue = version;
}

void session_catalogue_changed(struct session *s)
{
        if (s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING)
                session_send_catalogue(s);
}

void session_forget_catalogue(struct session *s)
{
        s->catalogue = 0;
}
