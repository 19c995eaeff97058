/*
 * A profile as the monitor holds it: its image, its template while one lives, and the requests that
 * wait for a session.
 *
 * A request waits until there is a template; a template needs an image. Both are made when the first
 * request comes. An error is the answer to every waiting request, and the next request tries again.
 * A template that has ended is started again for the requests that it has not answered, a few times.
 * Its sessions do not notice its end.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "policy/package-set.h"
#include "rpc/monitor-messages.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/template-files.h"
#include "supervisor/monitor/template/mount-source.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/template/template.h"
#include "supervisor/monitor/upstream/upstream-user.h"

struct profile;

/* A session to be made. */
struct profile_session {
        uint32_t serial; /* of the request */
        struct template *template;
        const struct ids *ids;
        const struct limits *limits;
};

/* The monitor's objects and functions that a profile uses; borrowed. */
struct profile_host {
        struct event_base *base;
        struct children *children;
        struct child_tasks *tasks;
        struct cgroups *const *cgroups;
        const struct ids *ids;
        struct template_files *files;
        const struct upstream_user *user; /* images are built and read as this user */
        const char *builder;              /* path of `cloister` */
        bool quiet;                       /* the builder shows no progress */
        bool for_one; /* one session, which is requested at once: it gets the error
                                           * of the early start, and the log does not */
        uint32_t sessions_max;

        void *data;
        /* False: it is not known yet what bounds sessions; profiles_bounds_known() follows. */
        bool (*bounds_known)(void *data);
        /* Asks the template for a session in a free slot. */
        int (*make)(void *data, const struct profile_session *session, struct error *err);
        /* A session has started: descriptors of MONITOR_SESSION_STARTED (borrowed). */
        void (*started)(void *data, struct sandbox *sandbox, const int fds[SESSION_FDS]);
        void (*failed)(void *data, uint32_t serial, const struct error *error);
        /* Frees a sandbox that will not be a session. */
        void (*release)(void *data, struct sandbox *sandbox);
        /* Adds the paths that no sandbox may mount. */
        int (*guards)(void *data, struct mount_guards *guards, struct error *err);
};

/* The functions of the set of profiles that a profile uses; borrowed. */
struct profile_set {
        void *data;
        /* A template is about to start: others may have to end. */
        void (*make_room)(void *data);
        /* Whether another profile builds an image of this name. */
        bool (*is_building)(void *data, const char *image);
        /* A build of this profile has ended: profile_image_built() for the others. */
        void (*built)(void *data, const char *image, const struct error *error);
};

/* Choices of the command line, which override the config's; all NULL: none. */
struct profile_choice {
        const char *image, *python;
        const struct package_set *set;
};

/* The profile `index` of a config, which it references. is_early: its template is started before it
 * is asked for, and kept. */
int profile_new(const struct profile_host *host, const struct profile_set *set,
                struct config *config, size_t index, bool is_early,
                const struct profile_choice *choice, struct profile **ret, struct error *err);
struct profile *profile_free(struct profile *profile);

const struct config_profile *profile_settings(const struct profile *profile);
bool profile_has_problem(const struct profile *profile); /* no image, or no directory to mount */
bool profile_is_early(const struct profile *profile);
const struct limits *profile_limits(const struct profile *profile);
bool profile_is_busy(const struct profile *profile); /* a request waits or a step runs */
bool profile_has_template(const struct profile *profile);
uint64_t profile_used(const struct profile *profile); /* when last: seconds of clock_ms() */
bool profile_is_building(const struct profile *profile, const char *image);

/* The same profile, in another config. */
void profile_set_config(struct profile *profile, struct config *config, size_t index);

/* Starts the template, unless it runs or is starting. */
void profile_prepare(struct profile *profile);
/* Queues a request for a session. */
void profile_request(struct profile *profile, uint32_t serial);
/* The monitor has found out how it bounds sessions. */
void profile_bounds_known(struct profile *profile);
/* Another profile has built this image, or failed to. */
void profile_image_built(struct profile *profile, const char *image, const struct error *error);

/* Ends the template of a profile that is not busy. */
void profile_end_template(struct profile *profile);
/* Kills the template without waiting: at the end of everything. */
void profile_kill_template(const struct profile *profile);
