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

#include "supervisor/monitor/profile.h"

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
void profiles_request(struct profiles *profiles, uint32_t index, uint32_t serial);
/* The monitor has found out how it bounds sessions. */
void profiles_bounds_known(struct profiles *profiles);
