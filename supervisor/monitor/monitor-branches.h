/*
 * The files in which the state of a session reaches its branches (docs/branches.md): sealed memfds.
 *
 * Theory of operation. A child of the monitor copies what comes from a pipe into a memfd, without parsing it. The kernel charges the
 * pages to the control group of the process that writes them: the child is in its own group, below that of the
 * principal. Without control groups the bytes count in the sums (monitor-sums.h). The broker gets the end of the pipe to write to, which the session that is copied gets;
 * the memfd, open for reading only; and a pipe whose end says that the child has ended. The file is whole if it is sealed then. Without
 * control groups the monitor has it open until BRANCH_DROP.
 */
#pragma once

#include "rpc/monitor-messages.h"

struct monitor;

/* BRANCH_START and BRANCH_DROP. */
void monitor_branch_start(struct monitor *m, const struct monitor_request *request);
void monitor_branch_drop(struct monitor *m, const struct monitor_request *request);

void monitor_branches_done(struct monitor *m);
