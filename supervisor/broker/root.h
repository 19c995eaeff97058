/*
 * The broker's root: an empty read-only tmpfs with
 *
 *     /state              the state directory, writable
 *     /etc                read-only, and so is the rest
 *     where /etc/resolv.conf leads, as a directory: a bound file goes stale when it is renamed over
 *     CA certificates     where distributions keep them outside /etc
 */
#pragma once

#include "base/error.h"

#define ROOT_STATE "/state"

/* Builds it and makes it the root; the old one is gone. state_path may be NULL. Needs
 * CAP_SYS_ADMIN. */
int root_change(const char *state_path, struct error *err);

/* *ret: a descriptor of /state, -1 when state_path is NULL. */
int root_open_state(const char *state_path, int *ret, struct error *err);
