/*
 * Control groups and control sockets of monitors that were killed together with their janitors. The
 * janitor of the next monitor removes them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* The pid and start time in the name of a monitor's group: cloister-PID-START. Fails rather than give
 * a name without the start time: the janitor would look for another one. */
int stale_group_name(char *ret, size_t size, struct error *err);

/* Removes from this cgroup directory every group of a monitor that has ended, with all processes
 * in it. A monitor lives while the process of that pid and start time exists, or, in another pid
 * namespace, while the group's directory is locked with flock(). */
void stale_groups_remove(const char *directory);

/* Removes the sockets PID.sock on which no process listens and whose process has ended. Returns whether a
 * process listens on one whose process has ended: the broker of a monitor that was killed just now,
 * or a server in another pid namespace. */
bool stale_sockets_remove(const char *directory);
