/*
 * All profiles of the config.
 *
 * Templates cost memory: one that was unused for as long as an idle session lives is ended, and
 * so is the one unused longest when too many live. The profile that the program was started for
 * keeps its template.
 *
 * A reload keeps the profiles whose sandboxes stay the same. The others are retired: they finish the
 * requests that they have.
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
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child-task.h"
#include "supervisor/monitor/template-files.h"
#include "supervisor/monitor/template/mount-source.h"
#include "supervisor/monitor/template/sandbox.h"
#include "supervisor/monitor/template/template.h"
#include "supervisor/monitor/upstream/upstream-exec.h"

/* A session to be made. */
struct profile_session {
        uint32_t serial, principal; /* of the request */
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
        /* The image of a profile of the config is being built (struct image_job). */
        void (*building)(void *data, uint32_t index, const char *line);
        /* Frees a sandbox that will not be a session. */
        void (*release)(void *data, struct sandbox *sandbox);
        /* Adds the paths that no sandbox may mount. */
        int (*guards)(void *data, struct mount_guards *guards, struct error *err);
};

/* Choices of the command line, which override the config's; all NULL: none. */
struct profile_choice {
        const char *image, *python;
        const struct package_set *set;
};

enum { PROFILES_IDLE_TEMPLATES_MAX = 4 };

struct profiles;

/* host is borrowed. */
int profiles_new(const struct profile_host *host, struct profiles **ret, struct error *err);
/* Kills every template and waits for their ends. */
struct profiles *profiles_free(struct profiles *profiles);

/* At the start and after a reload: takes the place of the profiles that there are; on failure they
 * stay. The config is referenced. early: name of the profile whose template is started before it is
 * asked for, NULL for the config's default; choice is for that one. */
int profiles_load(struct profiles *profiles, struct config *config, const char *early,
                  const struct profile_choice *choice, struct error *err);

/* Starts the template of the early profile. */
void profiles_prepare(struct profiles *profiles);
const struct limits *profiles_early_limits(const struct profiles *profiles);

/* Queues a request for a session. index: as in the config. */
void profiles_request(struct profiles *profiles, uint32_t index, uint32_t serial,
                      uint32_t principal);
/* The monitor has found out how it bounds sessions. */
void profiles_bounds_known(struct profiles *profiles);
