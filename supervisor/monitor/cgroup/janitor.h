/*
 * The process that removes what a killed monitor leaves: it sleeps until its pipe is closed, then
 * kills what is left in the monitor's control groups (servers after 2.5 s) and removes their directories and the control
 * socket.
 *
 * When it starts, it removes the control groups and sockets that earlier monitors left whose janitors were killed as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { JANITOR_PATHS_MAX = 16 };

/*
 * Forks the janitor for these control group directories (absolute; copied), which need not exist
 * yet, and the path of the control socket or NULL. Returns its pid, a child of the caller. *pipe_fd
 * is the write end of its pipe: O_CLOEXEC, owned by the caller; no other process may hold it. Call
 * it early: the janitor closes what it inherits, but shares the caller's memory.
 */
pid_t janitor_start(const char *const *paths, size_t n, const char *socket, int *pipe_fd,
                    struct error *err);

/* At the monitor's own end, after cgroups_free(): closes the pipe and waits for the janitor, 1 s at
 * most, and kills it then: the janitor of the next monitor removes what is left. Does not wait if servers have not ended yet:
 * the janitor outlives the monitor then. */
void janitor_finish(pid_t pid, int pipe_fd, bool has_servers);

/* The pid and start time in the name of a monitor's group: cloister-PID-START. Fails rather than give
 * a name without the start time: the janitor would look for another one. */
int stale_group_name(char *ret, size_t size, struct error *err);

/* Removes from this cgroup directory every group of a monitor that has ended, with all processes
 * in it. A monitor lives while the process of that pid and start time exists, or, in another pid
 * namespace, while the group's directory is locked with flock(). */
void stale_groups_remove(const char *directory);
