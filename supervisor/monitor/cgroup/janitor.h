/*
 * What cleans up when the monitor was killed: a process of ours that sleeps until its pipe ends,
 * then kills what is left in our control groups and removes their directories, and the control
 * socket.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { JANITOR_PATHS_MAX = 16 };

/*
 * Starts it for these directories (absolute; copied), and the name of a socket or NULL. Returns its
 * pid (a child of the caller, who need not reap it before its own end). *pipe_fd is what it waits
 * on: O_CLOEXEC, owned by the caller, to be held by nobody else; closing it makes the janitor work
 * and exit. Call it early, before descriptors and secrets pile up.
 */
pid_t janitor_start(const char *const *paths, size_t n, const char *socket, int *pipe_fd,
                    struct error *err);

/* At the monitor's own end, after cgroups_free(): closes the pipe and waits for the janitor, 1 s at
 * most. */
void janitor_finish(pid_t pid, int pipe_fd);
