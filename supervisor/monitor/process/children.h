/*
 * The processes that are ours by intent. CLONE_PARENT lets the template hand us children; one that
 * the monitor did not ask for is killed (DESIGN: topology).
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct children;

int children_new(struct children **ret, struct error *err);
struct children *children_free(struct children *children);

int children_add(struct children *children, pid_t pid); /* 0 or -ENOMEM */
void children_remove(struct children *children, pid_t pid);

/* Whether pid is a living child of ours that is not known yet. */
int children_is_new(const struct children *children, pid_t pid);

/* Kills and reaps every child that is not known. Returns how many there were, or negative errno. */
int children_sweep(struct children *children);

/* Reaps those that are not known and dead already. Returns how many there were, or negative errno.
 */
int children_bury(struct children *children);
