/* Writes the payload of a CATALOG frame: the servers and their tools. */
#include <errno.h>
#include <string.h>

#include "supervisor/hub/access.h"
#include "supervisor/hub/hub-internal.h"

/* The states of the frame. "cached": the tools of an earlier run can be called. */
static const char *state_of(const struct hub_server *s)
{
        if (hub_server_config(s)->disabled)
                return "disabled";
        if (hub_server_unusable(s) || hub_server_error(s))
                return "failed";
        if (hub_server_is_ready(s))
                return "ready";
        return hub_server_tools(s) ? "cached" : "starting";
}

static const char *error_of(const struct hub_server *s)
{
        if (hub_server_config(s)->disabled)
                return NULL;
        const char *unusable = hub_server_unusable(s);
        if (unusable)
                return unusable;
        return hub_server_error(s);
}

static int append_text(struct buffer *b, const char *key, const char *text)
{
        if (!text)
                return 0;
        int r = buffer_printf(b, ",\"%s\":", key);
        return r < 0 ? r : json_append_string(b, text, strlen(text));
}

struct filter {
        const struct config_profile *profile;
        const struct config_server *server;
};

static bool is_allowed(void *data, const char *tool)
{
        const struct filter *filter = data;

        return hub_access_tool(filter->profile, filter->server, tool);
}

static int append_tools(struct buffer *b, const struct hub_server *s,
                        const struct config_profile *profile)
{
        struct filter filter = {profile, hub_server_config(s)};

        if (hub_access_is_limited(profile, hub_server_config(s)))
                return hub_tools_append(hub_server_tools(s), b, is_allowed, &filter);
        const struct buffer *text = hub_tools_text(hub_server_tools(s));
        return buffer_append(b, buffer_bytes(text), text->length);
}

/* error: replaces the server's own, and its tools; or NULL. */
static int append_server(struct buffer *b, const struct hub_server *s,
                         const struct config_profile *profile, const char *error)
{
        int r = buffer_append_text(b, "{\"name\":");

        if (r >= 0)
                r = json_append_string(b, hub_server_config(s)->name,
                                       strlen(hub_server_config(s)->name));
        if (r >= 0)
                r = append_text(b, "state", error ? "failed" : state_of(s));
        if (r >= 0)
                r = append_text(b, "error", error ? error : error_of(s));
        if (r >= 0 && !error)
                r = append_text(b, "instructions", hub_server_instructions(s));
        if (r >= 0)
                r = buffer_append_text(b, ",\"tools\":[");
        if (r >= 0 && !error && hub_server_tools(s) && !hub_server_unusable(s))
                r = append_tools(b, s, profile);
        return r < 0 ? r : buffer_append(b, "]}", 2);
}

/* Bytes to keep free for the names and errors of the servers after this one. */
static size_t room_for_rest(const struct hub *hub, size_t i)
{
        return (hub->n_servers - i) * 8192;
}

/* Appends one server; if its tools do not fit, an error in their place. *values: of the tools before
 * it, and then with it. */
static int append_next(struct buffer *b, const struct hub *hub, size_t i,
                       const struct config_profile *profile, const char *comma, size_t *values)
{
        const struct hub_tools *tools = hub_server_tools(hub->servers[i]);
        size_t limit = b->limit, before = b->length;
        size_t with = *values + (tools ? hub_tools_values(tools) : 0);

        b->limit = limit - room_for_rest(hub, i);
        int r = with > HUB_CATALOGUE_VALUES_MAX ? -EMSGSIZE : buffer_append_text(b, comma);
        if (r >= 0)
                r = append_server(b, hub->servers[i], profile, NULL);
        b->limit = limit;
        if (r >= 0)
                *values = with;
        if (r != -EMSGSIZE)
                return r;
        b->length = before;
        r = buffer_append_text(b, comma);
        return r < 0 ? r
                     : append_server(
                               b, hub->servers[i], profile,
                               "its tools do not fit: the catalogue of all servers is at most 8 MiB and 400,000 values");
}

int hub_catalogue_build(struct buffer *b, const struct hub *hub,
                        const struct config_profile *profile)
{
        int r = buffer_append_text(b, "{\"servers\":[");
        const char *comma = "";
        size_t values = 0;

        for (size_t i = 0; r >= 0 && i < hub->n_servers; i++) {
                if (!hub_access_server(profile, hub_server_config(hub->servers[i])))
                        continue;
                r = append_next(b, hub, i, profile, comma, &values);
                comma = ",";
        }
        return r < 0 ? r : buffer_append(b, "]}", 2);
}
