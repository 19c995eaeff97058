/*
 * The cached tools of each server: one file for each server in the directory `catalogue` of the state
 * directory, named by the key of its config. A file is checked when it is read, and an invalid one is
 * ignored. The hub works the same if no file can be written.
 */
#pragma once

#include <stdint.h>

#include "supervisor/hub/cache/era.h"
#include "supervisor/hub/tools/tools.h"

enum {
        HUB_CACHE_FILE_MAX = 6 * 1024 * 1024,
        HUB_CACHE_FILES_MAX = 2048,
        HUB_CACHE_BYTES_MAX = 256 * 1024 * 1024,
        HUB_CACHE_DAYS = 60, /* a file that was not used in these days is removed */
        HUB_INSTRUCTIONS_MAX = 16 * 1024,
};

/* Opens or makes the directory, and removes old files; of a full one those, too, that were not used for the longest
 * time. Returns a descriptor or negative errno. */
int hub_cache_open(int state_dir);

/* The entry of a server. */
struct hub_cache_entry {
        struct hub_tools *tools;
        char *instructions; /* or NULL */
        enum hub_era era;
};

/* Returns 1 with the entry, whose members the caller owns, or 0 when there is no valid file. */
int hub_cache_load(int dir, uint64_t key, const char *server, struct hub_cache_entry *ret);

/* Replaces the file by rename, or has that done. Returns 0 or negative errno. */
int hub_cache_save(int dir, uint64_t key, const struct hub_cache_entry *entry);

/* From now on another process writes (cache-writer.h); `socket` is borrowed for the life of this one. */
void hub_cache_use_writer(int socket);

/* The same from content, within the limits of the cache. -ENOSPC: there is no room for it. */
int hub_cache_store(int dir, uint64_t key, const char *content, size_t n);
/* The file is in use: its age counts from now. If that fails, it is only removed too early. */
void hub_cache_touch(int dir, uint64_t key);
