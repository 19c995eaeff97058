/*
 * Tells when config files may have changed: edited, replaced by rename, made where there was none,
 * or gone.
 *
 * What is watched are directories, by inotify, because editors and tools put a new file in the
 * place of the old one. Whether anything has changed is for the callee to find out.
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>

#include "base/error.h"
#include "supervisor/config/config-files.h"

struct config_watch;

/* paths: what --config named; n is 0: the default places. changed() is called from the loop, a
 * short time after the last of some changes, and once soon after this returns, for what happened
 * before. */
int config_watch_new(struct config_watch **ret, struct event_base *base, const char *const *paths,
                     size_t n, void (*changed)(void *data), void *data, struct error *err);
struct config_watch *config_watch_free(struct config_watch *watch);

/* Watches the places anew, those that symbolic links of these files lead to included. */
void config_watch_files(struct config_watch *watch, const struct config_files *files);
