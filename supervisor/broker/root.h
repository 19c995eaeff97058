/*
 * The broker's root: an empty read-only tmpfs with
 *
 *     /state              the state directory, writable until cache_process_start()
 *
 * and, if servers are reached by HTTP,
 *
 *     /etc                read-only, and so is the rest: names of hosts and resolvers, certificates
 *     the directory that /etc/resolv.conf links to: a bind mount of the file would keep an old one
 *     CA certificates     where distributions keep them outside /etc; not for the process that only resolves names
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define ROOT_STATE "/state"

/* Builds it, makes it the root and unmounts the old one. state_path may be NULL. Needs
 * CAP_SYS_ADMIN. */
enum root_network { ROOT_ALONE, ROOT_NAMES, ROOT_HTTP };
int root_change(const char *state_path, enum root_network network, struct error *err);

/* *ret: a descriptor of /state, -1 when state_path is NULL. */
int root_open_state(const char *state_path, int *ret, struct error *err);
