/* Profiles: images, templates and who waits for them. */
#include "supervisor/monitor/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/monitor-internal.h"
#include "supervisor/monitor/profile-template.h"
#include "supervisor/monitor/template/network-check.h"

enum {
        /* A template that dies so often without a session in between is not made again for the same
         * requests. */
        TEMPLATE_DEATHS_MAX = 3,
        SWEEP_SECONDS = 30, /* between looks for what is not used any more */
};

static uint64_t now_seconds(void)
{
        return clock_ms() / 1000;
}

/* Several profiles: which it was is part of the message. */
static void say_which(const struct profile *p, struct error *error)
{
        if (p->config->n_profiles > 1)
                error_context(error, "profile \"%s\"", p->settings->name);
}

/* Told to whom it concerns; to the log when that is nobody yet. */
static void fail_waiting(struct profile *p, const struct error *error)
{
        struct error told = *error;
        size_t n = p->n_waiting;

        say_which(p, &told);
        if (n == 0)
                log_error("%s", told.text);
        p->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                monitor_send_failed(p->monitor, p->waiting[i], &told);
}

static bool is_busy(const struct profile *p)
{
        return p->n_waiting > 0 || p->n_making > 0 || p->image_reader || p->image_job;
}

static void fail_one(struct profile *p, struct sandbox *sandbox, struct error *error)
{
        uint32_t serial = sandbox_serial(sandbox);

        error_context(error, "start a sandbox");
        say_which(p, error);
        monitor_release(p->monitor, sandbox);
        monitor_send_failed(p->monitor, serial, error);
}

static int open_made(struct profile *p, struct sandbox *sandbox, int fds[SESSION_FDS],
                     struct error *err)
{
        if (!p->network_checked) {
                int r = network_check(sandbox_pid(sandbox), p->settings->network, err);
                if (r < 0)
                        return error_context(err, "the sandbox's network");
                p->network_checked = true;
        }
        return sandbox_open_outer(sandbox, fds, err);
}

static void on_made(void *data, struct sandbox *sandbox, const struct error *error)
{
        struct profile *p = data;
        struct error failed = {};
        int fds[SESSION_FDS];

        p->n_making--;
        if (error && error->code == ESTALE && p->template_deaths < TEMPLATE_DEATHS_MAX) {
                p->waiting[p->n_waiting++] = sandbox_serial(sandbox);
                monitor_release(p->monitor, sandbox);
                return;
        }
        if (error)
                failed = *error;
        else if (open_made(p, sandbox, fds, &failed) >= 0)
                failed.code = 0;
        if (error_is_set(&failed)) {
                /* To the broker it says that the config is another. */
                if (failed.code == ESTALE)
                        failed.code = EIO;
                fail_one(p, sandbox, &failed);
                return;
        }
        struct monitor_event event = {.kind = MONITOR_SESSION_STARTED,
                                      .serial = sandbox_serial(sandbox),
                                      .target = sandbox_handle(sandbox)};
        p->template_deaths = 0;
        p->used = now_seconds();
        monitor_send(p->monitor, &event, fds, SESSION_FDS);
        fd_close_many(fds, SESSION_FDS);
}

/* Its sessions go on; who waits for one gets another template. */
static void on_template_ended(void *data, const struct error *error)
{
        struct profile *p = data;
        struct error why = *error; /* the template's own, which goes with it */

        p->template = template_free(p->template);
        /* A session that it was just making has no name yet. */
        children_kill_unknown(p->monitor->children);
        if (p->n_waiting == 0 || ++p->template_deaths > TEMPLATE_DEATHS_MAX) {
                p->template_deaths = 0;
                fail_waiting(p, &why);
                return;
        }
        profile_go_on(p);
}

static void after_build(struct profile *p, const struct error *error)
{
        if (error) {
                fail_waiting(p, error);
                return;
        }
        profile_go_on(p);
}

/* One build serves all profiles with that image. */
static void on_image_built(void *data, const struct error *error)
{
        struct profile *p = data;
        struct monitor *m = p->monitor;

        char name[IMAGE_NAME_SIZE];

        memcpy(name, p->image.name, sizeof(name));
        p->image_job = image_job_free(p->image_job);
        after_build(p, error);
        for (size_t i = 0; i < m->n_profiles; i++) {
                struct profile *other = m->profiles[i];
                if (other != p && other->n_waiting > 0 && strcmp(other->image.name, name) == 0)
                        after_build(other, error);
        }
}

static bool is_being_built(const struct profile *p)
{
        const struct monitor *m = p->monitor;

        for (size_t i = 0; i < m->n_profiles; i++) {
                if (m->profiles[i]->image_job &&
                    strcmp(m->profiles[i]->image.name, p->image.name) == 0)
                        return true;
        }
        return false;
}

/* Room for another template: the one unused longest goes, if there are many. */
static void make_room(struct monitor *m)
{
        struct profile *oldest = NULL;
        size_t n = 0;

        for (size_t i = 0; i < m->n_profiles; i++) {
                struct profile *p = m->profiles[i];
                if (!p->template || is_busy(p))
                        continue;
                n++;
                if (!p->is_early && (!oldest || p->used < oldest->used))
                        oldest = p;
        }
        if (n < PROFILE_TEMPLATES_MAX || !oldest)
                return;
        log_debug("profile %s: its template is ended, to make room", oldest->settings->name);
        oldest->template = template_free(oldest->template);
}

static int build_image(struct profile *p, struct error *err)
{
        struct monitor *m = p->monitor;

        if (is_being_built(p))
                return 0;
        log_info("building the image %s from %s, once", p->image.name, p->image.python);
        return image_job_start(m->base, m->children, m->program, &p->image, &m->user,
                               m->options->quiet, on_image_built, p, &p->image_job, err);
}

static void on_image_read(void *data, const struct error *error, struct image_found *found)
{
        struct profile *p = data;
        struct error failed = {};
        int r;

        p->image_reader = NULL;
        if (*found->name)
                memcpy(p->image.name, found->name, sizeof(p->image.name));
        if (!error) {
                make_room(p->monitor);
                p->used = now_seconds();
                r = profile_start_template(p, &found->info, found->root, &failed);
        } else if (error->code == ENOENT && p->image.is_default && *found->name) {
                r = build_image(p, &failed);
        } else {
                failed = *error;
                r = -failed.code;
        }
        if (r < 0)
                fail_waiting(p, &failed);
        else
                profile_go_on(p);
}

static int prepare(struct profile *p, struct error *err)
{
        struct monitor *m = p->monitor;

        if (error_is_set(&p->problem)) {
                *err = p->problem;
                return -err->code;
        }
        /* An image that was upgraded or built since has another name. */
        return image_reader_start(m->tasks, &p->image, &m->user, on_image_read, p, &p->image_reader,
                                  err);
}

void profile_prepare(struct profile *p)
{
        struct error error = {};

        if (p->monitor->scope_pid > 0)
                p->monitor->prepare_later = true;
        if (p->monitor->scope_pid > 0 || p->template || p->image_reader || p->image_job)
                return;
        if (prepare(p, &error) < 0)
                fail_waiting(p, &error);
}

static void make_waiting(struct profile *p)
{
        while (p->template && p->n_waiting > 0) {
                struct error error = {};
                uint32_t serial = p->waiting[0];

                memmove(p->waiting, p->waiting + 1, --p->n_waiting * sizeof(p->waiting[0]));
                p->n_making++;
                if (monitor_make(p, serial, &error) >= 0)
                        continue;
                p->n_making--;
                say_which(p, &error);
                monitor_send_failed(p->monitor, serial, &error);
        }
}

void profile_go_on(struct profile *p)
{
        profile_prepare(p);
        make_waiting(p);
}

void profile_request(struct profile *p, uint32_t serial)
{
        struct error error = {};

        if (p->n_waiting == p->monitor->sessions_max) {
                error_set(&error, EAGAIN, "%u sessions are waiting already",
                          p->monitor->sessions_max);
                monitor_send_failed(p->monitor, serial, &error);
                return;
        }
        p->waiting[p->n_waiting++] = serial;
        profile_go_on(p);
}

static struct profile *profile_free(struct profile *p)
{
        if (!p)
                return NULL;
        image_reader_cancel(p->image_reader);
        image_job_free(p->image_job);
        template_free(p->template);
        fd_close_many(p->sources, CONFIG_MOUNTS_MAX);
        config_free(p->config);
        free(p->waiting);
        free(p);
        return NULL;
}

static void choose_image(struct profile *p, const struct monitor_options *options)
{
        const char *name = p->settings->image, *python = p->settings->python;

        /* What somebody asked for by hand is meant for the profile that is used by hand. */
        if (p->is_early && options->image)
                name = options->image;
        if (p->is_early && options->python)
                python = options->python;
        if (p->is_early && !package_set_empty(&options->set))
                image_choose_set(&options->set, python, &p->image, &p->problem);
        else
                image_choose(name, python, &p->image, &p->problem);
}

static int profile_new(struct monitor *m, struct config *config, size_t index, bool is_early,
                       struct profile **ret, struct error *err)
{
        struct profile *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "profile");
        p->monitor = m;
        p->config = config_ref(config);
        p->settings = &config->profiles[index];
        p->is_early = is_early;
        /* A user's files are reached by the user's id. */
        p->ids = p->settings->n_mounts > 0 ? ids_single(&m->ids) : m->ids;
        memset(p->sources, -1, sizeof(p->sources));
        p->template_host = (struct template_host){.base = m->base,
                                                  .children = m->children,
                                                  .ids = &p->ids,
                                                  .cgroups = &m->cgroups,
                                                  .data = p,
                                                  .made = on_made,
                                                  .ended = on_template_ended};
        p->waiting = calloc(m->sessions_max, sizeof(p->waiting[0]));
        if (!p->waiting) {
                profile_free(p);
                return error_errno(err, ENOMEM, "profile");
        }
        p->limits = p->settings->limits;
        limits_fit(&p->limits);
        choose_image(p, m->options);
        profile_open_sources(p);
        *ret = p;
        return 0;
}

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

/* Whether their sandboxes are alike; which tools they reach is the broker's affair. */
static bool same_sandbox(const struct config_profile *a, const struct config_profile *b)
{
        if (!same_text(a->name, b->name) || !same_text(a->image, b->image) ||
            !same_text(a->python, b->python) || a->network != b->network ||
            memcmp(&a->limits, &b->limits, sizeof(a->limits)) != 0 || a->n_mounts != b->n_mounts ||
            !same_list(a->preload, b->preload))
                return false;
        for (size_t i = 0; i < a->n_mounts; i++) {
                if (!same_text(a->mounts[i].source, b->mounts[i].source) ||
                    !same_text(a->mounts[i].target, b->mounts[i].target) ||
                    a->mounts[i].writable != b->mounts[i].writable)
                        return false;
        }
        return true;
}

/* One that stays, out of the present ones. */
static struct profile *take_same(struct monitor *m, const struct config_profile *settings,
                                 bool is_early)
{
        for (size_t i = 0; i < m->n_profiles; i++) {
                struct profile *p = m->profiles[i];
                if (!p || p->is_early != is_early || error_is_set(&p->problem) ||
                    error_is_set(&p->source_problem) || !same_sandbox(p->settings, settings))
                        continue;
                m->profiles[i] = NULL;
                return p;
        }
        return NULL;
}

/* Those that a reload put aside and that have nothing to do any more. */
static void drop_retired(struct monitor *m)
{
        for (struct profile **at = &m->retired; *at;) {
                struct profile *p = *at;
                if (is_busy(p)) {
                        at = &p->next;
                        continue;
                }
                *at = p->next;
                profile_free(p);
        }
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
        struct monitor *m = data;
        uint64_t now = now_seconds();

        (void)fd;
        (void)what;
        drop_retired(m);
        for (size_t i = 0; i < m->n_profiles; i++) {
                struct profile *p = m->profiles[i];
                if (!p->template || p->is_early || is_busy(p) ||
                    now < p->used + m->config->session_idle_ms / 1000)
                        continue;
                log_info("profile %s: nobody uses it: its template is ended", p->settings->name);
                p->template = template_free(p->template);
        }
}

static int start_sweeps(struct monitor *m, const struct config *config, struct error *err)
{
        uint32_t ms = config->session_idle_ms;
        struct timeval every = {.tv_sec = SWEEP_SECONDS};

        if (ms < SWEEP_SECONDS * 1000)
                every = (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 + 1};
        if (!m->sweep)
                m->sweep = event_new(m->base, -1, EV_PERSIST, on_sweep, m);
        if (!m->sweep || event_add(m->sweep, &every) < 0)
                return error_errno(err, ENOMEM, "timer");
        return 0;
}

static int early_index(const struct monitor *m, const struct config *config, struct error *err)
{
        if (m->options->profile)
                return config_find_profile(config, m->options->profile, err);
        return (int)config->profile;
}

/* Puts what is not NULL aside. */
static void retire_rest(struct monitor *m)
{
        for (size_t i = 0; i < m->n_profiles; i++) {
                struct profile *p = m->profiles[i];
                if (!p)
                        continue;
                p->next = m->retired;
                m->retired = p;
        }
}

static void keep(struct profile *p, struct config *config, size_t index)
{
        struct config *old = p->config;

        p->config = config_ref(config);
        p->settings = &config->profiles[index];
        config_free(old);
}

int profiles_load(struct monitor *m, struct config *config, struct error *err)
{
        struct profile *fresh[CONFIG_PROFILES_MAX] = {};
        int early = early_index(m, config, err);
        int r = early < 0 ? early : start_sweeps(m, config, err);

        /* All that are new first: what fails here changes nothing. */
        for (size_t i = 0; i < config->n_profiles && r >= 0; i++)
                r = profile_new(m, config, i, (int)i == early, &fresh[i], err);
        if (r < 0) {
                for (size_t i = 0; i < config->n_profiles; i++)
                        profile_free(fresh[i]);
                return r;
        }
        for (size_t i = 0; i < config->n_profiles; i++) {
                struct profile *same = take_same(m, &config->profiles[i], (int)i == early);
                if (!same)
                        continue;
                profile_free(fresh[i]);
                keep(same, config, i);
                fresh[i] = same;
        }
        retire_rest(m);
        memcpy(m->profiles, fresh, sizeof(fresh));
        m->n_profiles = config->n_profiles;
        m->early_profile = m->profiles[early];
        drop_retired(m);
        return 0;
}

void profiles_done(struct monitor *m)
{
        if (m->sweep)
                event_free(m->sweep);
        /* All at once: each is then waited for. */
        for (size_t i = 0; i < m->n_profiles; i++)
                if (m->profiles[i]->template)
                        template_kill(m->profiles[i]->template);
        for (size_t i = 0; i < m->n_profiles; i++)
                profile_free(m->profiles[i]);
        m->n_profiles = 0;
        while (m->retired) {
                struct profile *p = m->retired;
                m->retired = p->next;
                profile_free(p);
        }
}
