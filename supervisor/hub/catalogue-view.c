/* Catalogue views. */
#include "supervisor/hub/catalogue-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "supervisor/hub/hub-internal.h"
#include "supervisor/hub/tool-index.h"

enum { RULES_MAX = 4 * 1024 * 1024 };

void catalogue_views_init(struct catalogue_views *views)
{
        static const char empty[] = "{\"servers\":[]}";

        *views = (struct catalogue_views){
                .complete.payload = BUFFER_INIT(HUB_CATALOGUE_MAX),
                .empty = BUFFER_INIT(sizeof(empty)),
                .stale = true,
        };
        TAILQ_INIT(&views->list);
        if (buffer_append(&views->empty, empty, strlen(empty)) < 0)
                log_error("catalogue of tools: no memory");
}

static void view_free(struct catalogue_views *views, struct catalogue_view *view)
{
        TAILQ_REMOVE(&views->list, view, link);
        views->n--;
        tool_index_unref(view->index);
        buffer_done(&view->rules);
        buffer_done(&view->payload);
        free(view);
}

void catalogue_views_done(struct catalogue_views *views)
{
        struct catalogue_view *view;

        while ((view = TAILQ_FIRST(&views->list)))
                view_free(views, view);
        tool_index_unref(views->complete.index);
        buffer_done(&views->complete.payload);
        buffer_done(&views->empty);
}

static bool is_equal(const struct buffer *a, const struct buffer *b)
{
        return a->length == b->length &&
               (a->length == 0 || memcmp(buffer_bytes(a), buffer_bytes(b), a->length) == 0);
}

/* Builds the view. It gets a new version only if its payload has changed. Returns 0 or negative errno.
 */
static int rebuild(struct hub *hub, struct catalogue_view *view,
                   const struct config_profile *profile)
{
        _cleanup_buffer_ struct buffer now = BUFFER_INIT(HUB_CATALOGUE_MAX);

        int r = hub_catalogue_build(&now, hub, profile);
        if (r < 0) {
                log_error("catalogue of tools: %s", strerrordesc_np(-r));
                return r;
        }
        if (view->version > 0 && is_equal(&now, &view->payload))
                return 0;
        struct buffer before = view->payload;
        view->payload = now;
        now = before;
        view->index = tool_index_unref(view->index);
        view->version = ++hub->views.last_version;
        return 0;
}

void catalogue_views_refresh(struct hub *hub)
{
        if (hub->views.stale && rebuild(hub, &hub->views.complete, NULL) >= 0)
                hub->views.stale = false;
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
        int r = append_list(b, 's', profile->servers);

        if (r >= 0)
                r = append_list(b, 'a', profile->tools.allow);
        return r < 0 ? r : append_list(b, 'd', profile->tools.deny);
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
        buffer_init(rules, RULES_MAX);
        buffer_init(&view->payload, HUB_CATALOGUE_MAX);
        TAILQ_INSERT_HEAD(&views->list, view, link);
        if (++views->n > CATALOGUE_VIEWS_MAX)
                view_free(views, TAILQ_LAST(&views->list, catalogue_view_list));
        return view;
}

static struct catalogue_view *view_of(struct hub *hub, const struct config_profile *profile)
{
        _cleanup_buffer_ struct buffer rules = BUFFER_INIT(RULES_MAX);
        struct catalogue_views *views = &hub->views;

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
        if (view->built != views->complete.version && rebuild(hub, view, profile) < 0)
                return NULL;
        view->built = views->complete.version;
        return view;
}

static struct catalogue_view *current(struct hub *hub, const struct config_profile *profile)
{
        catalogue_views_refresh(hub);
        return profile ? view_of(hub, profile) : &hub->views.complete;
}

/* The views that were used longest ago lose theirs. */
static void drop_indexes(struct catalogue_views *views)
{
        struct catalogue_view *view;
        unsigned n = 0;

        TAILQ_FOREACH (view, &views->list, link) {
                if (view->index && ++n > CATALOGUE_INDEXES_MAX)
                        view->index = tool_index_unref(view->index);
        }
}

struct tool_index *catalogue_views_index(struct hub *hub, const struct config_profile *profile)
{
        struct catalogue_view *view = current(hub, profile);

        if (view && !view->index) {
                view->index = tool_index_new(&view->payload);
                drop_indexes(&hub->views);
        }
        return view ? view->index : NULL;
}

const struct buffer *catalogue_views_get(struct hub *hub, const struct config_profile *profile,
                                         uint64_t *version)
{
        struct catalogue_view *view = current(hub, profile);
        if (version)
                *version = view ? view->version : 0;
        /* Without memory, an empty catalogue: it must never show more than is allowed. */
        return view ? &view->payload : &hub->views.empty;
}
