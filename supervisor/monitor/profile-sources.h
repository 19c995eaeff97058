/* The host directories that a profile mounts. */
#pragma once

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/template/mount-source.h"

/* Opens the source of each mount of a profile, whose sandboxes have these ids, into fds. add_guards()
 * adds the paths that no sandbox may mount. After an error some may be open. */
int profile_sources_open(const struct config_profile *settings, const struct ids *ids,
                         int (*add_guards)(void *data, struct mount_guards *guards,
                                           struct error *err),
                         void *data, int *fds, struct error *err);
