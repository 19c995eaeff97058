/*
 * PID 1 of the pid namespace that a template and its sessions live in, and the holder of the
 * template's user namespace. It does nothing but wait: when it goes, the kernel ends all of them.
 */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"

struct stub;

/* filter_fd: FILTER_STUB (borrowed). ids: the template's and its sessions'; the first is uid 0
 * inside. */
int stub_start(const struct ids *ids, int filter_fd, struct children *children, struct stub **ret,
               struct error *err);

/* The template and each of its sessions hold it; the last to let go kills and reaps it, and with it
 * whatever is left in its namespace. Both return NULL or the stub, as usual. */
struct stub *stub_ref(struct stub *stub);
struct stub *stub_unref(struct stub *stub);

/* Ends it, and so all of its namespace, without waiting: at the end of everything. */
void stub_kill(const struct stub *stub);

int stub_user_namespace(const struct stub *stub); /* borrowed descriptors */
int stub_pid_namespace(const struct stub *stub);
