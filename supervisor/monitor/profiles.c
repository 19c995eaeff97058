/* All profiles of the config. */
#include "supervisor/monitor/profiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

enum { CHECK_MS = 30000 }; /* between looks for templates that are not used any more */

struct profiles {
        const struct profile_host *host;
        struct profile_set set;
        struct profile *items[CONFIG_PROFILES_MAX]; /* in the order of the config */
        size_t n;
        struct profile *early;
        struct profile **retired; /* replaced by a reload; they still have requests */
        size_t n_retired;
        uint32_t idle_ms; /* after which an unused template is ended */
        struct event *timer;
};

/* ---- What profiles ask about each other ---- */

static void make_room(void *data)
{
        struct profiles *ps = data;
        struct profile *oldest = NULL;
        size_t n = 0;

        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (!profile_has_template(p) || profile_is_busy(p))
                        continue;
                n++;
                if (!profile_is_early(p) && (!oldest || profile_used(p) < profile_used(oldest)))
                        oldest = p;
        }
        if (n < PROFILES_IDLE_TEMPLATES_MAX || !oldest)
                return;
        log_debug("profile %s: its template is ended, to make room",
                  profile_settings(oldest)->name);
        profile_end_template(oldest);
}

static bool is_building(void *data, const char *image)
{
        const struct profiles *ps = data;

        for (size_t i = 0; i < ps->n; i++) {
                if (profile_is_building(ps->items[i], image))
                        return true;
        }
        for (size_t i = 0; i < ps->n_retired; i++) {
                if (profile_is_building(ps->retired[i], image))
                        return true;
        }
        return false;
}

/* One build serves all profiles with that image. */
static void on_built(void *data, const char *image, const struct error *error)
{
        struct profiles *ps = data;

        for (size_t i = 0; i < ps->n; i++)
                profile_image_built(ps->items[i], image, error);
        for (size_t i = 0; i < ps->n_retired; i++)
                profile_image_built(ps->retired[i], image, error);
}

/* ---- Unused templates ---- */

static void drop_retired(struct profiles *ps)
{
        size_t n = 0;

        for (size_t i = 0; i < ps->n_retired; i++) {
                if (profile_is_busy(ps->retired[i]))
                        ps->retired[n++] = ps->retired[i];
                else
                        profile_free(ps->retired[i]);
        }
        ps->n_retired = n;
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
        struct profiles *ps = data;
        uint64_t now = clock_ms() / 1000;

        drop_retired(ps);
        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (!profile_has_template(p) || profile_is_early(p) || profile_is_busy(p) ||
                    now < profile_used(p) + ps->idle_ms / 1000)
                        continue;
                log_info("profile %s: unused for %llu min: its template was stopped",
                         profile_settings(p)->name,
                         (unsigned long long)(now - profile_used(p)) / 60);
                profile_end_template(p);
        }
}

static int start_timer(struct profiles *ps, const struct config *config, struct error *err)
{
        struct timeval every = clock_timeval_ms(CHECK_MS);

        if (config->session_idle_ms < CHECK_MS)
                every = clock_timeval_ms(config->session_idle_ms + 1);
        if (!ps->timer)
                ps->timer = event_new(ps->host->base, -1, EV_PERSIST, on_timer, ps);
        if (!ps->timer || event_add(ps->timer, &every) < 0)
                return error_errno(err, ENOMEM, "timer");
        return 0;
}

/* ---- Loading ---- */

static bool same_text(const char *a, const char *b)
{
        return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_list(char *const *a, char *const *b)
{
        size_t i = 0;

        if (!a || !b)
                return (!a || !a[0]) && (!b || !b[0]);
        while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
                i++;
        return !a[i] && !b[i];
}

/* Whether sandboxes are the same under both. The tools that they may call are the broker's affair. */
static bool same_sandbox(const struct config_profile *a, const struct config_profile *b)
{
        if (!same_text(a->name, b->name) || !same_text(a->image, b->image) ||
            !same_text(a->python, b->python) || a->network != b->network ||
            memcmp(&a->limits, &b->limits, sizeof(a->limits)) != 0 || a->n_mounts != b->n_mounts ||
            !same_list(a->preload, b->preload) || a->packages.install != b->packages.install)
                return false;
        for (size_t i = 0; i < a->n_mounts; i++) {
                if (!same_text(a->mounts[i].source, b->mounts[i].source) ||
                    !same_text(a->mounts[i].target, b->mounts[i].target) ||
                    a->mounts[i].writable != b->mounts[i].writable)
                        return false;
        }
        return true;
}

/* A present profile that stays, taken out of the list. One with a problem is made again: the problem
 * may be gone. */
static struct profile *take_same(struct profiles *ps, const struct config_profile *settings,
                                 bool is_early)
{
        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (!p || profile_is_early(p) != is_early || profile_has_problem(p) ||
                    !same_sandbox(profile_settings(p), settings))
                        continue;
                ps->items[i] = NULL;
                return p;
        }
        return NULL;
}

/* Room for all profiles to be retired, so that nothing fails once some have been replaced. */
static int reserve_retired(struct profiles *ps, struct error *err)
{
        struct profile **retired = reallocarray(ps->retired, ps->n_retired + ps->n + 1,
                                                sizeof(struct profile *));

        if (!retired)
                return error_errno(err, ENOMEM, "profiles");
        ps->retired = retired;
        return 0;
}

/* Those that take_same() has left. */
static void retire_rest(struct profiles *ps)
{
        for (size_t i = 0; i < ps->n; i++) {
                if (ps->items[i])
                        ps->retired[ps->n_retired++] = ps->items[i];
        }
}

static int make_fresh(struct profiles *ps, struct config *config, size_t early,
                      const struct profile_choice *choice, struct profile **fresh,
                      struct error *err)
{
        static const struct profile_choice none;
        int r = 0;

        for (size_t i = 0; i < config->n_profiles && r >= 0; i++)
                r = profile_new(ps->host, &ps->set, config, i, i == early,
                                i == early ? choice : &none, &fresh[i], err);
        return r;
}

int profiles_load(struct profiles *ps, struct config *config, const char *early_name,
                  const struct profile_choice *choice, struct error *err)
{
        struct profile *fresh[CONFIG_PROFILES_MAX] = {};
        int early = early_name ? config_find_profile(config, early_name, err)
                               : (int)config->profile;
        int r = early < 0 ? early : reserve_retired(ps, err);

        if (r >= 0)
                r = start_timer(ps, config, err);
        /* All new ones first: a failure here changes nothing. */
        if (r >= 0)
                r = make_fresh(ps, config, (size_t)early, choice, fresh, err);
        if (r < 0) {
                for (size_t i = 0; i < config->n_profiles; i++)
                        profile_free(fresh[i]);
                return r;
        }
        for (size_t i = 0; i < config->n_profiles; i++) {
                struct profile *same = take_same(ps, &config->profiles[i], (int)i == early);
                if (!same)
                        continue;
                profile_free(fresh[i]);
                profile_set_config(same, config, i);
                fresh[i] = same;
        }
        retire_rest(ps);
        memcpy(ps->items, fresh, sizeof(fresh));
        ps->n = config->n_profiles;
        ps->early = ps->items[early];
        ps->idle_ms = config->session_idle_ms;
        drop_retired(ps);
        return 0;
}

int profiles_new(const struct profile_host *host, struct profiles **ret, struct error *err)
{
        struct profiles *ps = calloc(1, sizeof(*ps));

        if (!ps)
                return error_errno(err, ENOMEM, "profiles");
        ps->host = host;
        ps->set = (struct profile_set){
                .data = ps, .make_room = make_room, .is_building = is_building, .built = on_built};
        *ret = ps;
        return 0;
}

struct profiles *profiles_free(struct profiles *ps)
{
        if (!ps)
                return NULL;
        if (ps->timer)
                event_free(ps->timer);
        /* All at once, before the first is waited for. */
        for (size_t i = 0; i < ps->n; i++)
                profile_kill_template(ps->items[i]);
        for (size_t i = 0; i < ps->n_retired; i++)
                profile_kill_template(ps->retired[i]);
        for (size_t i = 0; i < ps->n; i++)
                profile_free(ps->items[i]);
        for (size_t i = 0; i < ps->n_retired; i++)
                profile_free(ps->retired[i]);
        free(ps->retired);
        free(ps);
        return NULL;
}

void profiles_prepare(struct profiles *ps)
{
        profile_prepare(ps->early);
}

const struct limits *profiles_early_limits(const struct profiles *ps)
{
        return profile_limits(ps->early);
}

void profiles_request(struct profiles *ps, uint32_t index, uint32_t serial)
{
        struct error error = {};

        if (index < ps->n) {
                profile_request(ps->items[index], serial);
                return;
        }
        error_set(&error, ENOENT, "there is no profile %u", index);
        ps->host->failed(ps->host->data, serial, &error);
}

void profiles_bounds_known(struct profiles *ps)
{
        for (size_t i = 0; i < ps->n; i++)
                profile_bounds_known(ps->items[i]);
        for (size_t i = 0; i < ps->n_retired; i++)
                profile_bounds_known(ps->retired[i]);
}
