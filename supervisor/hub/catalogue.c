/* The payload of a CATALOG frame: what is known of every server. */
#include <errno.h>
#include <string.h>

#include "supervisor/hub/hub-private.h"

/* The states of the frame; what has tools from an earlier time can be called. */
static const char *state_of(const struct hub_server *s)
{
        if (s->config->disabled)
                return "disabled";
        if (hub_server_unusable(s) || s->state == SERVER_FAILED)
                return "failed";
        if (s->state == SERVER_READY)
                return "ready";
        return s->tools ? "cached" : "starting";
}

static const char *error_of(const struct hub_server *s)
{
        if (s->config->disabled)
                return NULL;
        const char *unusable = hub_server_unusable(s);
        if (unusable)
                return unusable;
        return s->state == SERVER_FAILED ? s->error.text : NULL;
}

static int append_text(struct buffer *b, const char *key, const char *text)
{
        if (!text)
                return 0;
        int r = buffer_printf(b, ",\"%s\":", key);
        return r < 0 ? r : json_append_string(b, text, strlen(text));
}

/* error NULL: the server's own; else its tools are left out. */
static int append_server(struct buffer *b, const struct hub_server *s, const char *error)
{
        int r = buffer_printf(b, "{\"name\":");

        if (r >= 0)
                r = json_append_string(b, s->config->name, strlen(s->config->name));
        if (r >= 0)
                r = append_text(b, "state", error ? "failed" : state_of(s));
        if (r >= 0)
                r = append_text(b, "error", error ? error : error_of(s));
        if (r >= 0 && !error)
                r = append_text(b, "instructions", s->instructions);
        if (r >= 0)
                r = buffer_printf(b, ",\"tools\":[");
        if (r >= 0 && !error && s->tools && !hub_server_unusable(s)) {
                const struct buffer *text = hub_tools_text(s->tools);
                r = buffer_append(b, buffer_bytes(text), text->length);
        }
        return r < 0 ? r : buffer_append(b, "]}", 2);
}

/* Room that the servers after this one need at least, for their names and errors. */
static size_t room_for_rest(const struct hub *hub, size_t i)
{
        return (hub->n_servers - i) * 8192;
}

int hub_catalogue_build(struct buffer *b, const struct hub *hub)
{
        size_t limit = b->limit;
        int r = buffer_printf(b, "{\"servers\":[");

        for (size_t i = 0; r >= 0 && i < hub->n_servers; i++) {
                size_t before = b->length;
                const char *comma = i > 0 ? "," : "";

                b->limit = limit - room_for_rest(hub, i);
                r = buffer_printf(b, "%s", comma);
                if (r >= 0)
                        r = append_server(b, &hub->servers[i], NULL);
                b->limit = limit;
                if (r != -EMSGSIZE)
                        continue;
                b->length = before;
                r = buffer_printf(b, "%s", comma);
                if (r >= 0)
                        r = append_server(
                                b, &hub->servers[i],
                                "its tools do not fit: the catalogue of all servers is at most "
                                "64 MiB");
        }
        return r < 0 ? r : buffer_append(b, "]}", 2);
}
