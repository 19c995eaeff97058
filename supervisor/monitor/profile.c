/*
 * A profile as the monitor holds it.
 *
 * Theory of operation. Its state says what it waits for:
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
#include "supervisor/monitor/profile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/monitor/image/image-job.h"
#include "supervisor/monitor/image/image-reader.h"
#include "supervisor/monitor/profile-sources.h"
#include "supervisor/monitor/template/network-gate.h"
#include "supervisor/monitor/template/template.h"

/* A template that ends TEMPLATE_DEATHS_MAX times without a session in between is not started again for the same
 * requests. */
enum { TEMPLATE_DEATHS_MAX = 3, BUILD_AGAIN_MS = 1000 };

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
        const struct profile_set *set;
        struct config *config; /* holds the settings */
        const struct config_profile *settings;
        bool is_early;
        struct limits limits; /* fitted */
        struct ids ids;       /* one id where its sandboxes mount host directories */
        struct image_choice image;
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

        uint32_t *waiting; /* serials, at most sessions_max */
        size_t n_waiting;
        size_t n_making;              /* in the template's queue */
        struct network_gate *network; /* sessions that were made wait for it */
};

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
                p->host->failed(p->host->data, p->waiting[i], &named);
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
        p->waiting[p->n_waiting++] = sandbox_serial(sandbox);
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

/* ---- The template ---- */

static int start_template(struct profile *p, const struct image_found *found, struct error *err)
{
        struct template_parts parts = {.image = &found->info,
                                       .image_fd = found->root,
                                       .profile = p->settings,
                                       .rlimits = !template_is_held(*p->host->cgroups, &p->ids),
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
                r = profile_sources_open(p->settings, &p->ids, p->host->guards, p->host->data,
                                         fresh, err);
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

        p->template = template_free(p->template);
        /* A session that it was just making is in no list yet. */
        children_kill_unknown(p->host->children);
        network_gate_reset(p->network, &why);
        handle(p, EVENT_TEMPLATE_ENDED, &why);
}

/* ---- The image ---- */

static void on_image_read(void *data, const struct error *error, struct image_found *found)
{
        struct profile *p = data;
        struct error failed = error ? *error : (struct error){};

        p->image_reader = NULL;
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
        handle(p, error ? EVENT_FAILED : EVENT_BUILT, &failed);
        p->set->built(p->set->data, image, error ? &failed : NULL);
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
        if (p->set->is_building(p->set->data, p->image.name))
                return;
        log_info("building the image %s from %s, once", p->image.name, p->image.python);
        if (image_job_start(p->host->base, p->host->children, p->host->builder, &p->image,
                            p->host->user, p->host->quiet, on_image_built, p, &p->image_job,
                            &error) < 0)
                handle(p, EVENT_FAILED, &error);
}

static void do_make_sessions(struct profile *p, void *argument)
{
        /* A template that cannot be asked ends within make(). */
        while (p->state == PROFILE_SERVING && p->n_waiting > 0) {
                struct error error = {};
                struct profile_session session = {.serial = p->waiting[0],
                                                  .template = p->template,
                                                  .ids = &p->ids,
                                                  .limits = &p->limits};

                memmove(p->waiting, p->waiting + 1, --p->n_waiting * sizeof(p->waiting[0]));
                p->n_making++;
                if (p->host->make(p->host->data, &session, &error) >= 0)
                        continue;
                p->n_making--;
                add_name(p, &error);
                p->host->failed(p->host->data, session.serial, &error);
        }
}

static void do_start_template(struct profile *p, void *found)
{
        struct error error = {};

        p->set->make_room(p->set->data);
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

void profile_prepare(struct profile *p)
{
        handle(p, EVENT_WANTED, NULL);
}

void profile_request(struct profile *p, uint32_t serial)
{
        struct error error = {};

        if (p->n_waiting == p->host->sessions_max) {
                error_set(&error, EAGAIN, "%u sessions are waiting already", p->host->sessions_max);
                p->host->failed(p->host->data, serial, &error);
                return;
        }
        p->waiting[p->n_waiting++] = serial;
        handle(p, EVENT_WANTED, NULL);
}

void profile_bounds_known(struct profile *p)
{
        if (p->state == PROFILE_HELD)
                handle(p, EVENT_BOUNDS_KNOWN, NULL);
}

void profile_image_built(struct profile *p, const char *image, const struct error *error)
{
        struct error failed = error ? *error : (struct error){};

        if (p->state == PROFILE_BUILDING && !p->image_job && strcmp(p->image.name, image) == 0)
                handle(p, error ? EVENT_FAILED : EVENT_BUILT, &failed);
}

void profile_end_template(struct profile *p)
{
        assert(p->state == PROFILE_SERVING && !profile_is_busy(p));
        p->template = template_free(p->template);
        network_gate_reset(p->network, NULL);
        enter(p, PROFILE_UNUSED);
}

void profile_kill_template(const struct profile *p)
{
        if (p->template)
                template_kill(p->template);
}

/* ---- What it is ---- */

bool profile_is_early(const struct profile *p)
{
        return p->is_early;
}

const struct limits *profile_limits(const struct profile *p)
{
        return &p->limits;
}

bool profile_is_busy(const struct profile *p)
{
        return p->n_waiting > 0 || p->n_making > 0 || network_gate_waiting(p->network) > 0 ||
               (p->state != PROFILE_UNUSED && p->state != PROFILE_SERVING);
}

bool profile_has_template(const struct profile *p)
{
        return p->state == PROFILE_SERVING;
}

uint64_t profile_used(const struct profile *p)
{
        return p->used;
}

bool profile_is_building(const struct profile *p, const char *image)
{
        return p->image_job && strcmp(p->image.name, image) == 0;
}

const struct config_profile *profile_settings(const struct profile *p)
{
        return p->settings;
}

bool profile_has_problem(const struct profile *p)
{
        return error_is_set(&p->problem) || error_is_set(&p->source_problem);
}

void profile_set_config(struct profile *p, struct config *config, size_t index)
{
        struct config *old = p->config;

        p->config = config_ref(config);
        p->settings = &config->profiles[index];
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
        if (p->settings->packages.install)
                snprintf(p->image.packages, sizeof(p->image.packages), "%s", p->settings->name);
}

/* While privilege lasts. In rootless mode they are opened when the template starts, so that a
 * directory may be replaced. */
static void open_sources_early(struct profile *p)
{
        if (p->settings->n_mounts > 0 && p->host->ids->mode != SANDBOX_ROOTLESS &&
            profile_sources_open(p->settings, &p->ids, p->host->guards, p->host->data, p->sources,
                                 &p->source_problem) < 0)
                fd_close_many(p->sources, CONFIG_MOUNTS_MAX);
}

int profile_new(const struct profile_host *host, const struct profile_set *set,
                struct config *config, size_t index, bool is_early,
                const struct profile_choice *choice, struct profile **ret, struct error *err)
{
        struct profile *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "profile");
        p->host = host;
        p->set = set;
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
                                                  .ended = on_template_ended};
        p->waiting = calloc(host->sessions_max, sizeof(p->waiting[0]));
        if (!p->waiting || network_gate_new(host->tasks, host->sessions_max, &gate_calls, p,
                                            &p->network, NULL) < 0) {
                profile_free(p);
                return error_errno(err, ENOMEM, "profile");
        }
        p->limits = p->settings->limits;
        limits_fit(&p->limits);
        if (p->ids.count == 1)
                limits_share_uid(&p->limits);
        choose_image(p, choice);
        open_sources_early(p);
        *ret = p;
        return 0;
}

struct profile *profile_free(struct profile *p)
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
