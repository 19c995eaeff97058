/*
 * A stdio MCP server: a tree of processes (npx, sh, node) on the host.
 *
 * The parent of its first process is a reaper, a process of ours that leads its own session. When
 * the server is stopped or the monitor ends in any way, the reaper ends every process of the tree.
 * The server gets its own pipes as 0, 1 and 2 and no other descriptor of ours.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/monitor/upstream/upstream-exec.h"

struct upstream;

enum { UPSTREAM_EXEC_SECONDS = 10 };

/*
 * Forks the reaper of a server, whose config must be expanded. The server starts with upstream_release(), which does not wait
 * for the exec; that may take long on a file system that does not answer: upstream_exec_fd() becomes readable when it is
 * known. With `apart` it is in namespaces of its own. passed_fd: a descriptor that the server gets as well, borrowed; -1: none. fds: [0] write end of its stdin, [1] read end of stdout, [2] read end of stderr, owned by
 * the caller.
 */
int upstream_start(const struct config_server *server, const struct upstream_user *user,
                   int passed_fd, struct upstream **ret, int fds[3], struct error *err);

/* Readable when the exec has succeeded or failed (borrowed); -1 after upstream_exec_result(). */
int upstream_exec_fd(const struct upstream *upstream);

/*
 * Call when that descriptor is readable, or after UPSTREAM_EXEC_SECONDS. 0: the server runs.
 * Negative errno: it was not started ("npx: not found in PATH; install it or give its full path"),
 * or, -ETIMEDOUT, not in time; then upstream_kill() it. Later calls return the same.
 */
int upstream_exec_result(struct upstream *upstream, struct error *err);

/* The reaper's pid, our child; 0 once reaped. */
pid_t upstream_pid(const struct upstream *upstream);

/* The reaper's pidfd: readable when the whole tree has ended (borrowed). */
int upstream_pidfd(const struct upstream *upstream);

/* Starts the server. Its reaper's control group is also its own. */
void upstream_release(struct upstream *upstream);

/* Tells the reaper to end the tree of processes: SIGTERM, and SIGKILL after 2 s. Does not wait. */
void upstream_stop(struct upstream *upstream);

/* As upstream_stop(), with SIGKILL at once. */
void upstream_kill(struct upstream *upstream);

/* Call when the pidfd is readable. Reaps the reaper and returns the server's wait status. */
int upstream_reap(struct upstream *upstream);

/* After upstream_reap() this only frees memory. Before it, kills the tree and waits for the reaper
 * for at most 1 s: not for use in a loop. */
struct upstream *upstream_free(struct upstream *upstream);

/*
 * The variables of `parent` (environ) that a server gets, then the entry's own. NULL-terminated;
 * free it with upstream_env_free(). NULL: out of memory.
 */
char **upstream_env_new(char *const *parent, const struct upstream_user *user, char *const *own,
                        size_t n_own);
void upstream_env_free(char **env);
