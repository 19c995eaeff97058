/*
 * The subordinate ids of an ordinary user (subuid(5), subgid(5)) and the programs that write them
 * into an id map (newuidmap(1), newgidmap(1)).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "supervisor/monitor/ids/ids-range.h"

/*
 * Chooses a run of `needed` uids and one of gids that the files give to this user by name or by
 * uid. Each call takes a random slot, so that two monitors rarely share ids. -ENOENT and *why:
 * there are none, too few, or no such programs.
 */
int newuidmap_choose(uid_t uid, uint32_t needed, struct id_run *uids, struct id_run *gids,
                     struct error *why);

/* Runs the programs on a dumpable child of ours: they map 0..count-1 to first_uid… and
 * first_gid…. */
int newuidmap_map(pid_t pid, uid_t first_uid, gid_t first_gid, uint32_t count, struct error *err);
