/* The environment of a stdio server. */
#pragma once

#include <stddef.h>

#include "supervisor/monitor/upstream/upstream.h"

/*
 * What of `parent` (environ) a server gets, then the entry's own variables. NULL-terminated; freed
 * with upstream_env_free(). NULL: out of memory.
 */
char **upstream_env_new(char *const *parent, const struct upstream_user *user, char *const *own,
                        size_t n_own);
void upstream_env_free(char **env);
