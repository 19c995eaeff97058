/*
 * The children that the monitor asked for. A template creates sessions with CLONE_PARENT, so that
 * they become children of the monitor; a compromised one could create others. Those are killed.
 *
 * While a template has been asked for a session that has not announced itself yet, one child that
 * is not known may be that session. Which template made a child cannot be seen from outside, so
 * that such a child is killed only when all requests that were open when it was first seen are
 * closed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct children;

/* Children that exist already belong to the program that exec'd the monitor: they are left alone. */
int children_new(struct children **ret, struct error *err);
struct children *children_free(struct children *children);

int children_add(struct children *children, pid_t pid); /* 0 or -ENOMEM */
void children_remove(struct children *children, pid_t pid);

/* Opens a request for a child: returns its number, not 0. */
uint64_t children_request(struct children *children);

/* Closes it and sets it to 0. has_come: its child was added. If not, its child, if there is one, is
 * killed without a warning by children_kill_unknown(). For 0 it does nothing. */
void children_request_close(struct children *children, uint64_t *request, bool has_come);

/* Whether pid is a living child of ours that is not known yet. */
int children_is_new(const struct children *children, pid_t pid);

/* Kills and reaps the children that are not known and that no open request can be for. Returns how
 * many of them were never requested, or negative errno. */
int children_kill_unknown(struct children *children);

/* Kills and reaps the living children that are not known and of which is_of() is true, whatever is
 * requested. Returns how many, or negative errno. */
int children_kill_some(struct children *children, bool (*is_of)(const void *data, pid_t pid),
                       const void *data);

/* As children_kill_some(), then, if it killed none, children_kill_unknown(), with one reading of the kernel's list. */
int children_kill_others(struct children *children, bool (*is_of)(const void *data, pid_t pid),
                         const void *data);

/* Reaps the children that are not known and have ended. Returns how many, or negative errno. */
int children_reap_unknown(struct children *children);
