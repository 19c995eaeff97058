/* The limits of a template, as data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/config/config.h"
#include "policy/limits.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "supervisor/monitor/ids/ids.h"

/* Limits of its process; UINT64_MAX: none. Sessions inherit them, and may only lower them. */
struct template_rlimits {
        uint64_t files;     /* open ones */
        uint64_t data;      /* bytes */
        uint64_t file_size; /* bytes */
        uint64_t processes; /* of its id, and of sessions with that id */
};

/* Whether a control group bounds a template with these ids for sure. Code of the image that has our own
 * id may be able to change the limits of its group. */
bool template_is_held(const struct cgroups *cgroups, const struct ids *ids);

/* Those of a profile's sessions (NULL: the default ones), but enough to start and to make sessions. */
struct limits template_limits_fit(const struct limits *limits);

/* has_group: a control group bounds memory and processes. shares_id: its sessions have its id. profile:
 * may be NULL. */
struct template_rlimits template_rlimits_choose(const struct limits *limits, bool has_group,
                                                bool shares_id,
                                                const struct config_profile *profile);
