/* Catalogue views. */
#include "supervisor/hub/catalogue-view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/background.h"
#include "supervisor/hub/hub-internal.h"

enum { RULES_MAX = 4 * 1024 * 1024 };

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
        catalogue_text_unref(views->complete.text);
}

static bool is_equal(const struct buffer *a, const struct buffer *b)
{
        return a->length == b->length &&
               (a->length == 0 || memcmp(buffer_bytes(a), buffer_bytes(b), a->length) == 0);
}

/* Builds the view. It gets a new version only if its text has changed. Returns 0 or negative errno. */
static int rebuild(struct hub *hub, struct catalogue_view *view,
                   const struct config_profile *profile)
{
        struct catalogue_text *now = calloc(1, sizeof(*now));
        int r = -ENOMEM;

        if (now) {
                *now = (struct catalogue_text){1, BUFFER_INIT(HUB_CATALOGUE_MAX)};
                r = hub_catalogue_build(&now->bytes, hub, profile);
        }
        if (r < 0)
                log_error("catalogue of tools: %s", strerrordesc_np(-r));
        if (r < 0 || (view->text && is_equal(&now->bytes, &view->text->bytes))) {
                catalogue_text_unref(now);
                return r;
        }
        catalogue_text_unref(view->text);
        view->text = now;
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

struct catalogue_text *catalogue_views_get(struct hub *hub, const struct config_profile *profile,
                                           uint64_t *version)
{
        catalogue_views_refresh(hub);
        struct catalogue_view *view = profile ? view_of(hub, profile) : &hub->views.complete;
        if (version)
                *version = view ? view->version : 0;
        return view ? view->text : NULL;
}
