/* All profiles of the config. */
#include "supervisor/monitor/profiles.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "policy/config/package-keys.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/image/image-reader.h"
#include "supervisor/monitor/template/network-gate.h"
#include "supervisor/monitor/turns.h"

/*
 * A profile: its image, its template while one lives, and the requests that wait for a session. A request
 * waits until there is a template; a template needs an image. Both are made when the first
 * request comes. An error is the answer to every waiting request, and the next request tries again.
 * A template that has ended is started again for the requests that it has not answered, a few times.
 * Its sessions do not notice its end. Its state says what it waits for:
 *
 *     state      event           does                                            next
 *     unused     wanted          starts the image reader                         reading
 *     unused     wanted          nothing while it is unknown what bounds it      held
 *     held       bounds known    starts the image reader                         reading
 *     reading    image found     starts the template                             serving
 *     reading    image missing   builds the image, unless another profile does   building
 *     reading    failed          fails all waiting requests                      unused
 *     building   built           starts the image reader                         reading
 *     building   failed          fails all waiting requests                      unused
 *     serving    wanted          asks the template for the sessions that wait    serving
 *     serving    template ended  starts the image reader when requests wait      reading
 *     serving    template ended  nothing when none waits                         unused
 *
 * "wanted" in held, reading or building only adds to what waits. Where a step fails at once, the
 * event "failed" follows in the new state. No build starts for BUILD_AGAIN_MS after a failed one.
 *
 * The first session of a template has its network checked by a child. Sessions that are made
 * meanwhile wait for the answer, which holds for all sessions of that template.
 */

/* A template that ends TEMPLATE_DEATHS_MAX times without a session in between is not started again for the same
 * requests. */
enum {
        TEMPLATE_DEATHS_MAX = 3,
        BUILD_AGAIN_MS = 1000,
        CHECK_MS = 30000, /* between looks for templates that are not used any more */
        QUEUE_MAX =
                2, /* in the template's queue, with pipes and groups: more would keep others waiting */
};

enum profile_state {
        PROFILE_UNUSED,
        PROFILE_HELD,
        PROFILE_READING,
        PROFILE_BUILDING,
        PROFILE_SERVING,
        PROFILE_STATE_MAX,
};

static const char *const state_names[] = {
        [PROFILE_UNUSED] = "unused",   [PROFILE_HELD] = "held",
        [PROFILE_READING] = "reading", [PROFILE_BUILDING] = "building",
        [PROFILE_SERVING] = "serving",
};
static_assert(ARRAY_SIZE(state_names) == PROFILE_STATE_MAX, "one name per state");

enum profile_event {
        EVENT_WANTED,
        EVENT_BOUNDS_KNOWN,
        EVENT_IMAGE_FOUND,
        EVENT_IMAGE_MISSING,
        EVENT_BUILT,
        EVENT_FAILED,
        EVENT_TEMPLATE_ENDED,
        EVENT_MAX,
};

struct profile {
        const struct profile_host *host;
        struct profiles *all;  /* that it is one of */
        struct config *config; /* holds the settings */
        const struct config_profile *settings;
        bool is_early;
        struct limits limits; /* fitted */
        struct ids ids;       /* one id where its sandboxes mount host directories */
        struct image_choice image;
        struct package_set libraries;   /* of the settings, which own the names; empty: none */
        struct error problem;           /* why it has no image to look for */
        int sources[CONFIG_MOUNTS_MAX]; /* opened with privilege; -1: when the template starts */
        struct error source_problem;    /* why one of them could not be opened */

        enum profile_state state;
        struct image_reader *image_reader; /* reading */
        struct image_job *image_job;       /* building, unless another profile builds */
        bool was_built;                    /* since a template last started */
        struct error build_failed;         /* the last build */
        uint64_t build_failed_ms;
        struct template_host template_host;
        struct template *template;    /* serving */
        unsigned int template_deaths; /* since a session was last made */
        uint64_t used;

        struct turns_request *waiting; /* at most sessions_max */
        size_t n_waiting;
        size_t n_making;              /* in the template's queue */
        struct network_gate *network; /* sessions that were made wait for it */
};

struct profiles {
        const struct profile_host *host;
        struct profile *items[CONFIG_PROFILES_MAX]; /* in the order of the config */
        size_t n;
        struct profile *early;
        struct profile **retired; /* replaced by a reload; they still have requests */
        size_t n_retired;
        uint32_t idle_ms; /* after which an unused template is ended */
        struct event *timer;
        struct turns turns;
};

/* Of those in the config and then the retired ones. */
static struct profile *nth(const struct profiles *ps, size_t i)
{
        return i < ps->n ? ps->items[i] : ps->retired[i - ps->n];
}

static void handle(struct profile *p, enum profile_event event, void *argument);

static uint64_t now_seconds(void)
{
        return clock_ms() / 1000;
}

static void enter(struct profile *p, enum profile_state state)
{
        log_debug("profile %s: %s, was %s", p->settings->name, state_names[state],
                  state_names[p->state]);
        p->state = state;
}

/* With several profiles, the message names the one that failed. */
static void add_name(const struct profile *p, struct error *error)
{
        if (p->config->n_profiles > 1)
                error_context(error, "profile \"%s\"", p->settings->name);
}

/* The error is the answer to every waiting request; without one it is logged. */
static void fail_waiting(struct profile *p, const struct error *error)
{
        struct error named = *error;
        size_t n = p->n_waiting;

        add_name(p, &named);
        if (n == 0)
                log_write(p->host->for_one ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "%s", named.text);
        p->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                p->host->failed(p->host->data, p->waiting[i].serial, &named);
}

static void fail_sandbox(struct profile *p, struct sandbox *sandbox, const struct error *error)
{
        uint32_t serial = sandbox_serial(sandbox);
        struct error named = *error;

        /* ESTALE would tell the broker that the config has changed. */
        if (named.code == ESTALE)
                named.code = EIO;
        error_context(&named, "start a sandbox");
        add_name(p, &named);
        p->host->release(p->host->data, sandbox);
        p->host->failed(p->host->data, serial, &named);
}

/* The request waits for another template, or fails when there were too many. */
static void try_again(struct profile *p, struct sandbox *sandbox, const struct error *error)
{
        if (p->template_deaths >= TEMPLATE_DEATHS_MAX || p->n_waiting == p->host->sessions_max) {
                fail_sandbox(p, sandbox, error);
                return;
        }
        p->waiting[p->n_waiting++] = (struct turns_request){sandbox_serial(sandbox),
                                                            sandbox_principal(sandbox)};
        p->host->release(p->host->data, sandbox);
}

/* ---- Sessions that were made ---- */

static void announce(struct profile *p, struct sandbox *sandbox)
{
        int fds[SESSION_FDS];
        struct error error = {};

        if (sandbox_open_outer(sandbox, fds, &error) < 0) {
                fail_sandbox(p, sandbox, &error);
                return;
        }
        p->template_deaths = 0;
        p->used = now_seconds();
        p->host->started(p->host->data, sandbox, fds);
        fd_close_many(fds, SESSION_FDS);
}

static void on_network_passed(void *data, struct sandbox *sandbox)
{
        announce(data, sandbox);
}

static void on_network_refused(void *data, struct sandbox *sandbox, const struct error *error)
{
        struct profile *p = data;

        /* Its template has ended before the answer: another template may make the session. */
        if (!p->template)
                try_again(p, sandbox, error);
        else
                fail_sandbox(p, sandbox, error);
}

static const struct network_gate_calls gate_calls = {.passed = on_network_passed,
                                                     .refused = on_network_refused};

static void on_made(void *data, struct sandbox *sandbox, const struct error *error)
{
        struct profile *p = data;

        p->n_making--;
        if (error && error->code == ESTALE)
                try_again(p, sandbox, error);
        else if (error)
                fail_sandbox(p, sandbox, error);
        else
                network_gate_add(p->network, sandbox, p->settings->network);
}

/* ---- What profiles ask about each other ---- */

/* A request waits or a step runs. */
static bool profile_is_busy(const struct profile *p)
{
        return p->n_waiting > 0 || p->n_making > 0 || network_gate_waiting(p->network) > 0 ||
               (p->state != PROFILE_UNUSED && p->state != PROFILE_SERVING);
}

/* Ends the template of a profile that is not busy. */
static void profile_end_template(struct profile *p)
{
        assert(p->state == PROFILE_SERVING && !profile_is_busy(p));
        p->template = template_free(p->template);
        network_gate_reset(p->network, NULL);
        enter(p, PROFILE_UNUSED);
}

/* A template is about to start: others may have to end. */
static void make_room(struct profiles *ps)
{
        struct profile *oldest = NULL;
        size_t n = 0;

        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (p->state != PROFILE_SERVING || profile_is_busy(p))
                        continue;
                n++;
                if (!p->is_early && (!oldest || p->used < oldest->used))
                        oldest = p;
        }
        if (n < PROFILES_IDLE_TEMPLATES_MAX || !oldest)
                return;
        log_debug("profile %s: its template is ended, to make room", oldest->settings->name);
        profile_end_template(oldest);
}

static bool is_building(const struct profiles *ps, const char *image)
{
        for (size_t i = 0; i < ps->n + ps->n_retired; i++) {
                const struct profile *p = nth(ps, i);
                if (p->image_job && strcmp(p->image.name, image) == 0)
                        return true;
        }
        return false;
}

/* The end of a build. Without libraries that are optional, the image is the one without them. */
static void built(struct profile *p, const struct error *error)
{
        struct error failed = error ? *error : (struct error){};

        if (error && p->image.set == &p->libraries && p->settings->libraries.optional) {
                log_warning("profile %s: used without its libraries until the next start: %s",
                            p->settings->name, failed.text);
                p->image.set = NULL;
                p->image.name[0] = '\0';
                handle(p, EVENT_BUILT, NULL);
                p->was_built = false;
                return;
        }
        handle(p, error ? EVENT_FAILED : EVENT_BUILT, &failed);
}

/* Another profile has built this image, or failed to. */
static void profile_image_built(struct profile *p, const char *image, const struct error *error)
{
        if (p->state == PROFILE_BUILDING && !p->image_job && strcmp(p->image.name, image) == 0)
                built(p, error);
}

/* ---- The template ---- */

/* Opens the source of each mount into fds. After an error some may be open. */
static int open_sources(const struct profile *p, int *fds, struct error *err)
{
        struct mount_guards *guards = calloc(1, sizeof(*guards));
        int r = guards ? p->host->guards(p->host->data, guards, err)
                       : error_errno(err, ENOMEM, "mounts");

        for (size_t i = 0; i < p->settings->n_mounts && r >= 0; i++)
                r = fds[i] = mount_source_open(&p->settings->mounts[i], &p->ids, guards, err);
        free(guards);
        return r < 0 ? r : 0;
}

/* Whether a control group bounds a template with these ids for sure. Code of the image that has our own
 * id may be able to change the limits of its group. */
static bool is_held(const struct cgroups *cgroups, const struct ids *ids)
{
        return cgroups_version(cgroups) != CGROUP_NONE &&
               (ids->first != geteuid() || cgroups_hold_owner(cgroups));
}

static int start_template(struct profile *p, const struct image_found *found, struct error *err)
{
        struct template_parts parts = {.image = &found->info,
                                       .image_fd = found->root,
                                       .profile = p->settings,
                                       .rlimits = !is_held(*p->host->cgroups, &p->ids),
                                       .limits = &p->limits};
        int fresh[CONFIG_MOUNTS_MAX];
        int r = 0;

        if (error_is_set(&p->source_problem)) {
                *err = p->source_problem;
                return -err->code;
        }
        memset(fresh, -1, sizeof(fresh));
        parts.packages_fd = found->packages;
        parts.sources = p->sources;
        if (p->settings->n_mounts > 0 && p->sources[0] < 0) {
                parts.sources = fresh;
                r = open_sources(p, fresh, err);
        }
        if (r >= 0)
                r = template_files_get(p->host->files, p->settings, &parts, err);
        if (r >= 0)
                r = template_start(&p->template_host, &parts, &p->template, err);
        fd_close_many(fresh, CONFIG_MOUNTS_MAX);
        return r;
}

static void on_template_ended(void *data, const struct error *error)
{
        struct profile *p = data;
        struct error why = *error; /* the template's own, which is freed here */

        /* Those that wait for room in its queue fail with those that were in it. */
        if (p->n_waiting > 0 && !template_may_be_replaced(p->template)) {
                struct error all = *error;
                error_context(&all, "start a sandbox");
                fail_waiting(p, &all);
        }
        p->template = template_free(p->template);
        /* A session that it was just making is in no list yet. */
        children_kill_unknown(p->host->children);
        network_gate_reset(p->network, &why);
        handle(p, EVENT_TEMPLATE_ENDED, &why);
}

/* ---- The image ---- */

/* A profile of a further language says which container image has its programs. */
static void add_source(const struct profile *p, struct error *error)
{
        const char *source = p->settings->program.source;

        if (source && !p->image.is_default)
                error_set(
                        error, ENOENT,
                        "there is no image '%s' (make it with 'cloister image build --oci %.200s --name %s')",
                        p->image.name, source, p->image.name);
}

static void on_image_read(void *data, const struct error *error, struct image_found *found)
{
        struct profile *p = data;
        struct error failed = error ? *error : (struct error){};

        p->image_reader = NULL;
        if (error && error->code == ENOENT)
                add_source(p, &failed);
        if (*found->name)
                memcpy(p->image.name, found->name, sizeof(p->image.name));
        if (!error)
                handle(p, EVENT_IMAGE_FOUND, found);
        else if (error->code == ENOENT && p->image.is_default && *found->name)
                handle(p, EVENT_IMAGE_MISSING, NULL);
        else
                handle(p, EVENT_FAILED, &failed);
}

static void on_image_built(void *data, const struct error *error)
{
        struct profile *p = data;
        struct error failed = error ? *error : (struct error){};
        char image[IMAGE_NAME_SIZE];

        memcpy(image, p->image.name, sizeof(image));
        p->image_job = image_job_free(p->image_job);
        built(p, error ? &failed : NULL);
        for (size_t i = 0; i < p->all->n + p->all->n_retired; i++)
                profile_image_built(nth(p->all, i), image, error ? &failed : NULL);
}

/* For each profile that waits for the image. */
static void on_image_told(void *data, const char *line)
{
        struct profile *p = data;

        for (size_t i = 0; i < p->all->n; i++) {
                const struct profile *each = p->all->items[i];
                if (each->state == PROFILE_BUILDING && strcmp(each->image.name, p->image.name) == 0)
                        p->host->building(p->host->data, (uint32_t)i, line);
        }
}

/* ---- States ---- */

static void do_nothing(struct profile *p, void *argument)
{
}

static void do_fail(struct profile *p, void *error)
{
        p->was_built = false;
        enter(p, PROFILE_UNUSED);
        fail_waiting(p, error);
}

static void do_fail_build(struct profile *p, void *error)
{
        p->build_failed = *(const struct error *)error;
        p->build_failed_ms = clock_ms();
        do_fail(p, error);
}

/* An image that was upgraded or built since the last time has another name: it is read each time. */
static void do_read_image(struct profile *p, void *argument)
{
        struct error error = p->problem;

        if (!p->host->bounds_known(p->host->data)) {
                enter(p, PROFILE_HELD);
                return;
        }
        enter(p, PROFILE_READING);
        if (error_is_set(&error) ||
            image_reader_start(p->host->tasks, &p->image, p->host->user, on_image_read, p,
                               &p->image_reader, &error) < 0)
                handle(p, EVENT_FAILED, &error);
}

static void do_read_built_image(struct profile *p, void *argument)
{
        p->was_built = true;
        do_read_image(p, argument);
}

static void do_build(struct profile *p, void *argument)
{
        struct error error = {};

        if (p->was_built) {
                error_set(&error, ENOENT, "image %s was built, but the store does not have it",
                          p->image.name);
                return do_fail_build(p, &error);
        }
        if (error_is_set(&p->build_failed) && clock_ms() - p->build_failed_ms < BUILD_AGAIN_MS)
                return do_fail(p, &p->build_failed);
        enter(p, PROFILE_BUILDING);
        if (is_building(p->all, p->image.name))
                return;
        log_info("building the image %s from %s, once", p->image.name, p->image.python);
        if (image_job_start(p->host->base, p->host->children, *p->host->cgroups, p->host->builder,
                            &p->image, p->host->user, p->host->quiet, on_image_built, on_image_told,
                            p, &p->image_job, &error) < 0)
                handle(p, EVENT_FAILED, &error);
}

static void do_make_sessions(struct profile *p, void *argument)
{
        /* A template that cannot be asked ends within make(). */
        while (p->state == PROFILE_SERVING && p->n_waiting > 0 && p->n_making < QUEUE_MAX) {
                struct error error = {};
                struct turns_request next = turns_take(&p->all->turns, p->waiting, &p->n_waiting,
                                                       clock_ms());
                struct profile_session session = {.serial = next.serial,
                                                  .principal = next.principal,
                                                  .template = p->template,
                                                  .ids = &p->ids,
                                                  .limits = &p->limits};

                p->n_making++;
                if (p->host->make(p->host->data, &session, &error) >= 0)
                        continue;
                p->n_making--;
                add_name(p, &error);
                p->host->failed(p->host->data, session.serial, &error);
        }
}

static void on_room(void *data)
{
        struct profile *p = data;

        if (p->state == PROFILE_SERVING)
                do_make_sessions(p, NULL);
}

static void do_start_template(struct profile *p, void *found)
{
        struct error error = {};

        make_room(p->all);
        p->used = now_seconds();
        if (start_template(p, found, &error) < 0) {
                handle(p, EVENT_FAILED, &error);
                return;
        }
        p->was_built = false;
        enter(p, PROFILE_SERVING);
        do_make_sessions(p, NULL);
}

static void do_end(struct profile *p, void *error)
{
        enter(p, PROFILE_UNUSED);
        if (p->n_waiting > 0 && ++p->template_deaths <= TEMPLATE_DEATHS_MAX) {
                /* No request fails with this error, and no branch can begin from the sessions of that template any more. */
                log_warning("profile %s: its template is started again: %s", p->settings->name,
                            ((const struct error *)error)->text);
                handle(p, EVENT_WANTED, NULL);
                return;
        }
        p->template_deaths = 0;
        fail_waiting(p, error);
}

/* The action for an event; NULL: it cannot happen in that state. */
static void (*const transitions[PROFILE_STATE_MAX][EVENT_MAX])(struct profile *, void *) = {
        [PROFILE_UNUSED] = {[EVENT_WANTED] = do_read_image},
        [PROFILE_HELD] = {[EVENT_WANTED] = do_nothing, [EVENT_BOUNDS_KNOWN] = do_read_image},
        [PROFILE_READING] = {[EVENT_WANTED] = do_nothing,
                             [EVENT_IMAGE_FOUND] = do_start_template,
                             [EVENT_IMAGE_MISSING] = do_build,
                             [EVENT_FAILED] = do_fail},
        [PROFILE_BUILDING] = {[EVENT_WANTED] = do_nothing,
                              [EVENT_BUILT] = do_read_built_image,
                              [EVENT_FAILED] = do_fail_build},
        [PROFILE_SERVING] = {[EVENT_WANTED] = do_make_sessions, [EVENT_TEMPLATE_ENDED] = do_end},
};

static void handle(struct profile *p, enum profile_event event, void *argument)
{
        void (*action)(struct profile *, void *) = transitions[p->state][event];

        assert(action);
        action(p, argument);
}

/* Queues a request for a session. */
static void profile_request(struct profile *p, uint32_t serial, uint32_t principal)
{
        struct error error = {};

        if (p->n_waiting == p->host->sessions_max) {
                error_set(&error, EAGAIN, "%u sessions are waiting already", p->host->sessions_max);
                p->host->failed(p->host->data, serial, &error);
                return;
        }
        p->waiting[p->n_waiting++] = (struct turns_request){serial, principal};
        handle(p, EVENT_WANTED, NULL);
}

/* The monitor has found out how it bounds sessions. */
static void profile_bounds_known(struct profile *p)
{
        if (p->state == PROFILE_HELD)
                handle(p, EVENT_BOUNDS_KNOWN, NULL);
}

/* ---- One profile ---- */

/* The same profile, in another config. */
static void profile_set_config(struct profile *p, struct config *config, size_t index)
{
        struct config *old = p->config;

        p->config = config_ref(config);
        p->settings = &config->profiles[index];
        config_profile_libraries(p->settings, &p->libraries);
        config_free(old);
}

static void choose_image(struct profile *p, const struct profile_choice *choice)
{
        const char *name = choice->image ? choice->image : p->settings->image;
        const char *python = choice->python ? choice->python : p->settings->python;

        if (choice->set)
                image_choose_set(choice->set, python, &p->image, &p->problem);
        else
                image_choose(name, python, &p->image, &p->problem);
        config_profile_libraries(p->settings, &p->libraries);
        if (!choice->set && p->image.is_default && !package_set_empty(&p->libraries))
                p->image.set = &p->libraries;
        if (p->settings->language == LANGUAGE_JAVASCRIPT && p->image.is_default &&
            !error_is_set(&p->problem))
                image_choose_node(&p->image, p->settings->nodejs, p->settings->pyodide,
                                  &p->problem);
        p->image.python_downloads = p->settings->python_downloads;
        if (p->settings->packages.install)
                snprintf(p->image.packages, sizeof(p->image.packages), "%s", p->settings->name);
}

/* While privilege lasts. In rootless mode they are opened when the template starts, so that a
 * directory may be replaced. */
static void open_sources_early(struct profile *p)
{
        if (p->settings->n_mounts > 0 && p->host->ids->mode != SANDBOX_ROOTLESS &&
            open_sources(p, p->sources, &p->source_problem) < 0)
                fd_close_many(p->sources, CONFIG_MOUNTS_MAX);
}

static struct profile *profile_free(struct profile *p)
{
        if (!p)
                return NULL;
        network_gate_free(p->network);
        image_reader_cancel(p->image_reader);
        image_job_free(p->image_job);
        template_free(p->template);
        fd_close_many(p->sources, CONFIG_MOUNTS_MAX);
        config_free(p->config);
        free(p->waiting);
        free(p);
        return NULL;
}

/* The profile `index` of a config, which it references. is_early: its template is started before it
 * is asked for, and kept. */
static int profile_new(struct profiles *all, struct config *config, size_t index, bool is_early,
                       const struct profile_choice *choice, struct profile **ret, struct error *err)
{
        const struct profile_host *host = all->host;
        struct profile *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "profile");
        p->host = host;
        p->all = all;
        p->config = config_ref(config);
        p->settings = &config->profiles[index];
        p->is_early = is_early;
        /* A user's files are accessed with the user's id. */
        p->ids = p->settings->n_mounts > 0 ? ids_single(host->ids) : *host->ids;
        memset(p->sources, -1, sizeof(p->sources));
        p->template_host = (struct template_host){.base = host->base,
                                                  .children = host->children,
                                                  .ids = &p->ids,
                                                  .cgroups = host->cgroups,
                                                  .data = p,
                                                  .made = on_made,
                                                  .has_room = on_room,
                                                  .ended = on_template_ended};
        p->waiting = calloc(host->sessions_max, sizeof(p->waiting[0]));
        if (!p->waiting || network_gate_new(host->tasks, host->sessions_max, &gate_calls, p,
                                            &p->network, NULL) < 0) {
                profile_free(p);
                return error_errno(err, ENOMEM, "profile");
        }
        p->limits = p->settings->limits;
        limits_fit(&p->limits);
        if (p->settings->network != CONFIG_NETWORK_NONE)
                p->limits.socket_buffers = LIMITS_SOCKET_BUFFERS;
        if (p->ids.count == 1)
                limits_share_uid(&p->limits);
        choose_image(p, choice);
        open_sources_early(p);
        *ret = p;
        return 0;
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
        uint64_t now = now_seconds();

        drop_retired(ps);
        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (p->state != PROFILE_SERVING || p->is_early || profile_is_busy(p) ||
                    now < p->used + ps->idle_ms / 1000)
                        continue;
                log_info("profile %s: unused for %llu min: its template was stopped",
                         p->settings->name, (unsigned long long)(now - p->used) / 60);
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

/* A present profile that stays, taken out of the list. One with a problem is made again: the problem
 * may be gone. */
static struct profile *take_same(struct profiles *ps, const struct config_profile *settings,
                                 bool is_early)
{
        for (size_t i = 0; i < ps->n; i++) {
                struct profile *p = ps->items[i];
                if (!p || p->is_early != is_early || error_is_set(&p->problem) ||
                    error_is_set(&p->source_problem) || !config_same_sandbox(p->settings, settings))
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
                r = profile_new(ps, config, i, i == early, i == early ? choice : &none, &fresh[i],
                                err);
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
        for (size_t i = 0; i < ps->n + ps->n_retired; i++)
                if (nth(ps, i)->template)
                        template_kill(nth(ps, i)->template);
        for (size_t i = 0; i < ps->n + ps->n_retired; i++)
                profile_free(nth(ps, i));
        free(ps->retired);
        free(ps);
        return NULL;
}

void profiles_prepare(struct profiles *ps)
{
        handle(ps->early, EVENT_WANTED, NULL);
}

const struct limits *profiles_early_limits(const struct profiles *ps)
{
        return &ps->early->limits;
}

void profiles_request(struct profiles *ps, uint32_t index, uint32_t serial, uint32_t principal)
{
        struct error error = {};

        if (index < ps->n) {
                profile_request(ps->items[index], serial, principal);
                return;
        }
        error_set(&error, ENOENT, "there is no profile %u", index);
        ps->host->failed(ps->host->data, serial, &error);
}

void profiles_bounds_known(struct profiles *ps)
{
        for (size_t i = 0; i < ps->n + ps->n_retired; i++)
                profile_bounds_known(nth(ps, i));
}
