/* Ranges of numeric ids: which we may use, and which are taken. */
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

/* Add the ids in a file; one that does not exist adds none. Formats: maps of user_namespaces(7)
 * (the inner ids), subuid(5), and passwd(5) or group(5), whose third field is the id. */
int id_runs_add_map(struct id_runs *runs, const char *path, struct error *err);
int id_runs_add_sub(struct id_runs *runs, const char *path, struct error *err);
/* Of a subuid(5) file only the ranges of one user, given there by name or by uid. */
int id_runs_add_sub_of(struct id_runs *runs, const char *path, const char *name, uint32_t uid,
                       struct error *err);
int id_runs_add_names(struct id_runs *runs, const char *path, struct error *err);

/* Whether one run contains all ids of wanted; whether some run contains any of them. */
bool id_runs_cover(const struct id_runs *runs, struct id_run wanted);
bool id_runs_overlap(const struct id_runs *runs, struct id_run wanted);

/*
 * Chooses a run of `needed` ids in range that both maps cover and that are not taken. The range is
 * divided into slots; the first free one from slot `start` on (modulo their number) is chosen.
 * Returns 0 or -ENOSPC.
 */
int id_runs_choose(struct id_run range, uint32_t needed, uint32_t start,
                   const struct id_runs *uid_map, const struct id_runs *gid_map,
                   const struct id_runs *taken, struct id_run *ret);
