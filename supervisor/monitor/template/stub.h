/*
 * PID 1 of the pid namespace of a template and its sessions, in the template's user namespace. It only
 * waits: when it ends, the kernel kills all processes of that pid namespace.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/children.h"

struct stub;

/* filter_fd: FILTER_STUB (borrowed). ids: the template's and its sessions'; the first is uid 0
 * inside. */
int stub_start(const struct ids *ids, int filter_fd, struct children *children, struct stub **ret,
               struct error *err);

/* The template and each of its sessions have a reference. stub_unref() returns NULL; the last one
 * kills and reaps the stub, and so all processes that are left in its pid namespace. */
struct stub *stub_ref(struct stub *stub);
struct stub *stub_unref(struct stub *stub);

/* Kills it, and so all of its pid namespace, without waiting: when the monitor ends. */
void stub_kill(const struct stub *stub);

pid_t stub_pid(const struct stub *stub);

/* Whether a living process is in its pid namespace, or in one whose parent it is. */
bool stub_has(const struct stub *stub, pid_t pid);

int stub_user_namespace(const struct stub *stub); /* borrowed descriptors */
int stub_pid_namespace(const struct stub *stub);
