/*
 * An ordinary user's subordinate ids (subuid(5), subgid(5)) and the programs that write them into a
 * map for him (newuidmap(1), newgidmap(1)).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids-range.h"

/*
 * Chooses `needed` uids and as many gids in a row of those that both files give to this user, by
 * name or by uid. Each call takes a slot at random, so that two monitors rarely share ids. -ENOENT
 * and why: there are none, too few, or no such programs.
 */
int newuidmap_choose(uid_t uid, uint32_t needed, struct id_run *uids, struct id_run *gids,
                     struct error *why);

/* Has both maps of a dumpable child of ours written: 0..count-1 to uids.first… and gids.first…. */
int newuidmap_map(pid_t pid, uid_t first_uid, gid_t first_gid, uint32_t count, struct error *err);
