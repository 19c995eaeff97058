/*
 * Reports that config files may have changed: edited, replaced by rename, created or removed.
 *
 * It watches directories, because editors and tools replace a file by renaming another over it. The
 * callback finds out whether anything has changed.
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>

#include "base/error.h"
#include "supervisor/config/config-files.h"

struct config_watch;

/* paths: as given with --config; n == 0: the default places. changed() is called from the loop,
 * a short time after the last of several changes, and once soon after this call, for changes
 * before it. */
int config_watch_new(struct config_watch **ret, struct event_base *base, const char *const *paths,
                     size_t n, void (*changed)(void *data), void *data, struct error *err);
struct config_watch *config_watch_free(struct config_watch *watch);

/* Replaces the set of watched directories; those of published code, and those that symbolic links of
 * these files lead to, are included. */
void config_watch_files(struct config_watch *watch, const struct config_files *files);
