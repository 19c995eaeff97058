/*
 * Verifies, by asking the kernel over netlink, that a sandbox has no network but what its profile
 * allows. A child (child-task.h) joins the sandbox's user and network namespace and asks.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/monitor/process/child-task.h"

struct network_check;

/*
 * Called once from the event loop, after the check was freed. error NULL: there is only lo, and it is
 * down without a route ("none") or up with every route on it ("loopback", "allow"). -EISCONN: what else was
 * found; any other error: it could not be determined, which is a failure too. listener: of CONFIG_NETWORK_ALLOW the
 * socket of the proxy, made in the sandbox's network namespace (rpc/egress-messages.h); owned by the callee; else -1.
 */
typedef void network_check_done(void *data, const struct error *error, int listener);

/* pid: a sandbox's PID 1, our child. */
int network_check_start(struct child_tasks *tasks, pid_t pid, enum config_network network,
                        network_check_done *done, void *data, struct network_check **ret,
                        struct error *err);

/* done() is not called. NULL is allowed. Returns NULL. */
struct network_check *network_check_cancel(struct network_check *check);
