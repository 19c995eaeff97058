/* Runs of numeric ids: which are ours to use, which are somebody's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Ids [first, first + count). */
struct id_run {
        uint32_t first, count;
};

struct id_runs {
        struct id_run *items;
        size_t count, allocated;
};

int id_runs_add(struct id_runs *runs, uint32_t first, uint32_t count);
void id_runs_done(struct id_runs *runs);

/* Adds what a file says; one that does not exist adds nothing. Formats: user_namespaces(7) maps
 * (the inner side), subuid(5), and passwd(5) or group(5), whose third field is the id. */
int id_runs_add_map(struct id_runs *runs, const char *path, struct error *err);
int id_runs_add_sub(struct id_runs *runs, const char *path, struct error *err);
/* Of the latter only what one user has, whom the file names or gives by uid. */
int id_runs_add_sub_of(struct id_runs *runs, const char *path, const char *name, uint32_t uid,
                       struct error *err);
int id_runs_add_names(struct id_runs *runs, const char *path, struct error *err);

/* All of wanted lies in one run. */
bool id_runs_cover(const struct id_runs *runs, struct id_run wanted);
bool id_runs_overlap(const struct id_runs *runs, struct id_run wanted);

/*
 * A run of `needed` ids in range that both maps cover and nobody has. The range is cut into slots,
 * of which the first one free from slot `start` on (modulo their number) is taken. Returns 0, or
 * -ENOSPC.
 */
int id_runs_choose(struct id_run range, uint32_t needed, uint32_t start,
                   const struct id_runs *uid_map, const struct id_runs *gid_map,
                   const struct id_runs *taken, struct id_run *ret);
