/* The payload of a CATALOG frame: what is known of every server. */
#include <errno.h>
#include <string.h>

#include "supervisor/hub/access.h"
#include "supervisor/hub/hub-internal.h"

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

struct asking {
        const struct config_profile *profile;
        const struct config_server *server;
};

static bool is_wanted(void *data, const char *tool)
{
        const struct asking *asking = data;

        return hub_access_tool(asking->profile, asking->server, tool);
}

static int append_tools(struct buffer *b, const struct hub_server *s,
                        const struct config_profile *profile)
{
        struct asking asking = {profile, s->config};

        if (hub_access_is_limited(profile, s->config))
                return hub_tools_append(s->tools, b, is_wanted, &asking);
        const struct buffer *text = hub_tools_text(s->tools);
        return buffer_append(b, buffer_bytes(text), text->length);
}

/* error NULL: the server's own; else its tools are left out. */
static int append_server(struct buffer *b, const struct hub_server *s,
                         const struct config_profile *profile, const char *error)
{
        int r = buffer_append_text(b, "{\"name\":");

        if (r >= 0)
                r = json_append_string(b, s->config->name, strlen(s->config->name));
        if (r >= 0)
                r = append_text(b, "state", error ? "failed" : state_of(s));
        if (r >= 0)
                r = append_text(b, "error", error ? error : error_of(s));
        if (r >= 0 && !error)
                r = append_text(b, "instructions", s->instructions);
        if (r >= 0)
                r = buffer_append_text(b, ",\"tools\":[");
        if (r >= 0 && !error && s->tools && !hub_server_unusable(s))
                r = append_tools(b, s, profile);
        return r < 0 ? r : buffer_append(b, "]}", 2);
}

/* Room that the servers after this one need at least, for their names and errors. */
static size_t room_for_rest(const struct hub *hub, size_t i)
{
        return (hub->n_servers - i) * 8192;
}

/* One server behind what is there; one whose tools do not fit says so in their place. */
static int append_next(struct buffer *b, const struct hub *hub, size_t i,
                       const struct config_profile *profile, const char *comma)
{
        size_t limit = b->limit, before = b->length;

        b->limit = limit - room_for_rest(hub, i);
        int r = buffer_append_text(b, comma);
        if (r >= 0)
                r = append_server(b, hub->servers[i], profile, NULL);
        b->limit = limit;
        if (r != -EMSGSIZE)
                return r;
        b->length = before;
        r = buffer_append_text(b, comma);
        return r < 0 ? r
                     : append_server(
                               b, hub->servers[i], profile,
                               "its tools do not fit: the catalogue of all servers is at most 64 MiB");
}

int hub_catalogue_build(struct buffer *b, const struct hub *hub,
                        const struct config_profile *profile)
{
        int r = buffer_append_text(b, "{\"servers\":[");
        const char *comma = "";

        for (size_t i = 0; r >= 0 && i < hub->n_servers; i++) {
                if (!hub_access_server(profile, hub->servers[i]->config))
                        continue;
                r = append_next(b, hub, i, profile, comma);
                comma = ",";
        }
        return r < 0 ? r : buffer_append(b, "]}", 2);
}
