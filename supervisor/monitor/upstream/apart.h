/*
 * Namespaces of a server: its processes see no others, and end with the reaper, which is PID 1 in them.
 *
 * The user namespace is there in each mode: with it the kernel refuses ptrace(2) and /proc/PID/environ between two servers of
 * one user also where one of them finds another mount of /proc. Ids are the same inside and outside (userns_map_same()).
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* The end of the error of a failure. */
#define APART_WAY_BACK "set \"apart\": false for this server"

/* In the monitor: fork() of a reaper into them. Returns 0 in the child, its pid in the parent, or negative errno. The child must
 * not make itself non-dumpable before it is mapped. */
pid_t apart_fork(struct error *err);
int apart_map(pid_t pid, struct error *err);

/* In the mapped child: mounts its /proc. No later exec gets capabilities with which the mount could be removed. */
int apart_enter(struct error *err);

/* Before an exec in them: -EPERM for a program that would change its user and cannot. */
int apart_check_program(const char *path, struct error *err);

/* Kills all processes but the caller, which is PID 1. */
void apart_kill_all(void);
