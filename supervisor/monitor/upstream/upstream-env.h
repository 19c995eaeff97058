/* The environment of a stdio server. */
#pragma once

#include <stddef.h>

#include "supervisor/monitor/upstream/upstream-user.h"

/*
 * The variables of `parent` (environ) that a server gets, then the entry's own. NULL-terminated;
 * free it with upstream_env_free(). NULL: out of memory.
 */
char **upstream_env_new(char *const *parent, const struct upstream_user *user, char *const *own,
                        size_t n_own);
void upstream_env_free(char **env);
