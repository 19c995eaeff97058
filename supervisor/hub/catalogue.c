/* The payload of a CATALOG frame: the servers and their tools. */
#include "supervisor/hub/catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/log.h"
#include "policy/config/config.h"
#include "policy/rules/labels.h"
#include "policy/rules/rules.h"
#include "rpc/background.h"
#include "supervisor/hub/server/server.h"

bool hub_access_server(const struct config_profile *profile, const struct config_server *server)
{
        if (!profile)
                return true;
        if (!profile->servers)
                return hub_access_server(profile->also, server);
        for (char **name = profile->servers; *name; name++) {
                if (strcmp(*name, server->name) == 0)
                        return hub_access_server(profile->also, server);
        }
        return false;
}

bool hub_access_tool(const struct config_profile *profile, const struct config_server *server,
                     const char *tool)
{
        if (!hub_access_server(profile, server) || !config_tool_allowed(&server->tools, NULL, tool))
                return false;
        for (; profile; profile = profile->also)
                if (!config_tool_allowed(&profile->tools, server->name, tool))
                        return false;
        return true;
}

static bool hub_access_is_limited(const struct config_profile *profile,
                                  const struct config_server *server)
{
        if (profile && profile->compiled_rules)
                return true;
        for (; profile; profile = profile->also)
                if (profile->tools.allow || profile->tools.deny)
                        return true;
        return server->tools.allow || server->tools.deny;
}

/* Of the tools of all servers together: each change is copied and parsed in the loop. */
enum { CATALOGUE_MAX = 8 * 1024 * 1024, CATALOGUE_VALUES_MAX = 400 * 1000 };
enum { VIEW_RULES_MAX = 4 * 1024 * 1024 };

/* The states of the frame. "cached": the tools of an earlier run can be called. */
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

static void append_text(struct json_out *out, const char *key, const char *text)
{
        if (text)
                json_out_text(out, key, text);
}

struct filter {
        const struct config_profile *profile;
        const struct config_server *server;
        struct json_out *denied; /* the names of tools that are always denied */
};

/* The effects that the rules of a profile and those of `also` can have on calls of a tool. */
static unsigned effects_of(const struct filter *filter, const char *name, const char *text,
                           size_t n)
{
        const struct rules *rules = filter->profile->compiled_rules;
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!rules || !rules_can_match(rules, filter->server->name, name))
                return 1u << RULES_ALLOW;
        if (json_parse(text, n, &doc, NULL) < 0)
                return 1u << RULES_ASK | 1u << RULES_ALLOW;
        yyjson_val *annotations = yyjson_obj_get(yyjson_doc_get_root(doc), "annotations");
        const struct rules_call call = {
                .server = filter->server->name,
                .tool = name,
                .annotations = annotations,
                .trusts_hints = filter->server->trust_hints,
                .is_open = labels_of(filter->server->labels, name, annotations).is_open,
        };
        return rules_effects(rules, &call);
}

/* A tool that is always denied is not listed; its name is known, so that code which calls it gets the reason. */
static enum hub_tool_mark mark(void *data, const char *tool, const char *text, size_t n)
{
        const struct filter *filter = data;

        if (!hub_access_tool(filter->profile, filter->server, tool))
                return HUB_TOOL_LEFT_OUT;
        unsigned effects = filter->profile ? effects_of(filter, tool, text, n) : 1u << RULES_ALLOW;
        if (effects == 1u << RULES_DENY) {
                json_out_text(filter->denied, NULL, tool);
                return HUB_TOOL_LEFT_OUT;
        }
        return !(effects & 1u << RULES_ALLOW) ? HUB_TOOL_ASKS
               : effects & 1u << RULES_ASK    ? HUB_TOOL_ASKS_SOME
                                              : HUB_TOOL_PLAIN;
}

static int append_tools(struct buffer *b, const struct hub_server *s,
                        const struct config_profile *profile, struct json_out *denied)
{
        struct filter filter = {profile, s->config, denied};

        if (hub_access_is_limited(profile, s->config))
                return hub_tools_append(s->tools, b, mark, &filter);
        const struct buffer *text = hub_tools_text(s->tools);
        return buffer_append(b, buffer_bytes(text), text->length);
}

/* error: replaces the server's own, and its tools; or NULL. */
static int append_server(struct buffer *b, const struct hub_server *s,
                         const struct config_profile *profile, const char *error)
{
        _cleanup_buffer_ struct buffer names = BUFFER_INIT(CATALOGUE_MAX);
        struct json_out out = {.to = b}, denied = {.to = &names};
        const char *own = NULL;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", s->config->name);
        json_out_text(&out, "state", error ? "failed" : state_of(s));
        if (!error && !s->config->disabled)
                own = hub_server_unusable(s) ?: s->state == SERVER_FAILED ? s->error.text : NULL;
        append_text(&out, "error", error ? error : own);
        append_text(&out, "instructions", error ? NULL : s->instructions);
        json_out_begin(&denied, NULL, '[');
        json_out_begin(&out, "tools", '[');
        if (out.error >= 0 && !error && s->tools && !hub_server_unusable(s))
                json_out_fail(&out, append_tools(b, s, profile, &denied));
        json_out_end(&out, ']');
        json_out_end(&denied, ']');
        if (names.length > strlen("[]"))
                json_out_buffer(&out, "denied", &names);
        json_out_fail(&out, denied.error);
        json_out_end(&out, '}');
        return out.error;
}

/* Appends one server; if its tools do not fit, an error replaces them. *values: of the tools before it, and
 * then with it. */
static int append_next(struct buffer *b, const struct hub_servers *servers, size_t i,
                       const struct config_profile *profile, const char *comma, size_t *values)
{
        const struct hub_server *s = servers->items[i];
        const struct hub_tools *tools = s->tools;
        size_t limit = b->limit, before = b->length;
        size_t with = *values + (tools ? hub_tools_values(tools) : 0);

        /* Bytes are kept free for the names and errors of the servers after this one. */
        b->limit = limit - (servers->n - i) * 8192;
        int r = with > CATALOGUE_VALUES_MAX ? -EMSGSIZE : buffer_append_text(b, comma);
        if (r >= 0)
                r = append_server(b, s, profile, NULL);
        b->limit = limit;
        if (r >= 0)
                *values = with;
        if (r != -EMSGSIZE)
                return r;
        b->length = before;
        r = buffer_append_text(b, comma);
        return r < 0 ? r
                     : append_server(
                               b, s, profile,
                               "its tools do not fit: the catalogue of all servers is at most 8 MiB and 400,000 values");
}

static int build(struct buffer *b, const struct hub_servers *servers,
                 const struct config_profile *profile)
{
        int r = buffer_append_text(b, "{\"servers\":[");
        const char *comma = "";
        size_t values = 0;

        for (size_t i = 0; r >= 0 && i < servers->n; i++) {
                if (!hub_access_server(profile, servers->items[i]->config))
                        continue;
                r = append_next(b, servers, i, profile, comma, &values);
                comma = ",";
        }
        if (r >= 0)
                r = buffer_append_text(b, profile && profile->compiled_rules ? "],\"rules\":true}"
                                                                             : "]}");
        return r;
}

/* ---- views ---- */

struct catalogue_text *catalogue_text_ref(struct catalogue_text *text)
{
        __atomic_add_fetch(&text->refs, 1, __ATOMIC_RELAXED);
        return text;
}

struct catalogue_text *catalogue_text_unref(struct catalogue_text *text)
{
        if (!text || __atomic_sub_fetch(&text->refs, 1, __ATOMIC_ACQ_REL) > 0)
                return NULL;
        background_free(text->bytes.data, text->bytes.allocated);
        free(text);
        return NULL;
}

void catalogue_views_init(struct catalogue_views *views)
{
        *views = (struct catalogue_views){.stale = true};
        TAILQ_INIT(&views->list);
}

static void view_free(struct catalogue_views *views, struct catalogue_view *view)
{
        TAILQ_REMOVE(&views->list, view, link);
        views->n--;
        catalogue_text_unref(view->text);
        buffer_done(&view->rules);
        free(view);
}

void catalogue_views_done(struct catalogue_views *views)
{
        struct catalogue_view *view;

        while ((view = TAILQ_FIRST(&views->list)))
                view_free(views, view);
        views->complete.text = catalogue_text_unref(views->complete.text);
}

static bool is_equal(const struct buffer *a, const struct buffer *b)
{
        return a->length == b->length &&
               (a->length == 0 || memcmp(buffer_bytes(a), buffer_bytes(b), a->length) == 0);
}

/* Builds the view. It gets a new version only if its text has changed. Returns 0 or negative errno. */
static int rebuild(struct catalogue_views *views, struct catalogue_view *view,
                   const struct config_profile *profile)
{
        struct catalogue_text *now = calloc(1, sizeof(*now));
        int r = -ENOMEM;

        if (now) {
                *now = (struct catalogue_text){1, BUFFER_INIT(CATALOGUE_MAX)};
                r = build(&now->bytes, &views->servers, profile);
        }
        if (r < 0)
                log_error("catalogue of tools: %s", strerrordesc_np(-r));
        if (r < 0 || (view->text && is_equal(&now->bytes, &view->text->bytes))) {
                catalogue_text_unref(now);
                return r;
        }
        catalogue_text_unref(view->text);
        view->text = now;
        view->version = ++views->last_version;
        return 0;
}

void catalogue_views_refresh(struct catalogue_views *views)
{
        if (views->stale && rebuild(views, &views->complete, NULL) >= 0)
                views->stale = false;
}

static int append_list(struct buffer *b, char kind, char **list)
{
        if (!list)
                return 0;
        int r = buffer_append(b, &kind, 1);
        for (; r >= 0 && *list; list++) {
                r = buffer_append(b, ".", 1);
                if (r >= 0)
                        r = buffer_append(b, *list, strlen(*list) + 1);
        }
        return r < 0 ? r : buffer_append(b, "", 1);
}

/* Profiles with the same rules have the same text. */
static int append_rules(struct buffer *b, const struct config_profile *profile)
{
        const struct rules *rules = profile->compiled_rules;
        int r = rules ? buffer_append(b, "r", 1) : 0;

        for (size_t i = 0; r >= 0 && i < rules_count(rules); i++)
                r = buffer_append(b, &rules_at(rules, i)->key, sizeof(uint64_t));
        for (; profile && r >= 0; profile = profile->also) {
                r = append_list(b, 's', profile->servers);
                if (r >= 0)
                        r = append_list(b, 'a', profile->tools.allow);
                if (r >= 0)
                        r = append_list(b, 'd', profile->tools.deny);
        }
        return r;
}

static struct catalogue_view *find(struct catalogue_views *views, const struct buffer *rules)
{
        struct catalogue_view *view;

        TAILQ_FOREACH (view, &views->list, link) {
                if (is_equal(&view->rules, rules))
                        return view;
        }
        return NULL;
}

/* Takes ownership of the rules. */
static struct catalogue_view *add(struct catalogue_views *views, struct buffer *rules)
{
        struct catalogue_view *view = calloc(1, sizeof(*view));

        if (!view)
                return NULL;
        view->rules = *rules;
        buffer_init(rules, VIEW_RULES_MAX);
        TAILQ_INSERT_HEAD(&views->list, view, link);
        if (++views->n > CATALOGUE_VIEWS_MAX)
                view_free(views, TAILQ_LAST(&views->list, catalogue_view_list));
        return view;
}

static struct catalogue_view *view_of(struct catalogue_views *views,
                                      const struct config_profile *profile)
{
        _cleanup_buffer_ struct buffer rules = BUFFER_INIT(VIEW_RULES_MAX);

        if (append_rules(&rules, profile) < 0)
                return NULL;
        if (rules.length == 0)
                return &views->complete;
        struct catalogue_view *view = find(views, &rules);
        if (!view)
                view = add(views, &rules);
        if (!view)
                return NULL;
        TAILQ_REMOVE(&views->list, view, link);
        TAILQ_INSERT_HEAD(&views->list, view, link);
        if (view->built != views->complete.version && rebuild(views, view, profile) < 0)
                return NULL;
        view->built = views->complete.version;
        return view;
}

struct catalogue_text *catalogue_views_get(struct catalogue_views *views,
                                           const struct config_profile *profile, uint64_t *version)
{
        catalogue_views_refresh(views);
        struct catalogue_view *view = profile ? view_of(views, profile) : &views->complete;
        if (version)
                *version = view ? view->version : 0;
        return view ? view->text : NULL;
}
