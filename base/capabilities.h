/* Giving up other ids and capabilities, see capabilities(7). Sets are bits: UINT64_C(1) << CAP_CHOWN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Keeps at most these in the permitted and effective set; empties the inheritable and the ambient
 * one. Returns 0 or negative errno. */
int capabilities_keep(uint64_t keep);

/* Removes all others from the bounding set, which an exec by uid 0 would otherwise regain. Returns
 * false where that lacks CAP_SETPCAP: then set no_new_privs. */
bool capabilities_bound(uint64_t keep);

/* Gives all up. Without CAP_SETPCAP the bounding set stays; with no_new_privs it has no effect. */
int capabilities_drop(struct error *err);

/* Becomes this user and the group of the same number. setgroups() is allowed only where the id map permits it, which is where
 * there are other groups. */
int capabilities_become(uid_t uid, struct error *err);
