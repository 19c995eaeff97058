/*
 * The directory of the journal and its files. A segment is N.jsonl with its N.heads. Who writes to it has a lock of its open
 * file (flock(2)), which the broker's descriptor holds too: as long as one of the two processes lives, the segment has an owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { SEGMENTS_MAX = 65536 };

struct segment_entry {
        uint32_t number;
        off_t bytes;         /* of the records */
        off_t all_bytes;     /* with its heads */
        int64_t modified_ms; /* CLOCK_REALTIME */
};

struct segments {
        struct segment_entry *list; /* owned, by number */
        size_t n;
        off_t bytes; /* of all */
};

/* Opens the directory of this user, which no other may enter; make: makes it. path: for errors. */
int segments_open(const char *path, bool make, struct error *err);
/* Holds off all other processes of this journal until the descriptor is closed. */
int segments_lock(int directory, struct error *err);

int segments_list(int directory, struct segments *ret, struct error *err);
void segments_done(struct segments *segments);

/* Opens N.jsonl. It must be a regular file of this user with one name, closed to others. */
int segment_open(int directory, uint32_t number, bool write, struct error *err);
/* Takes the lock. Returns false if a living process has it. */
bool segment_take(int fd);
/* Whether a living process has it. */
bool segment_is_owned(int fd);
/* Makes the next segment, or takes an empty one that has no owner, with its lock. segments_lock() must be held. */
int segment_make(int directory, const struct segments *segments, uint32_t *number,
                 struct error *err);
/* Removes a segment and its heads. */
int segment_remove(int directory, uint32_t number, struct error *err);
