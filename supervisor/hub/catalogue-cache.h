/*
 * What each server said of its tools, kept from the last run: one file a server in the folder
 * `catalogue` of the state directory, named by the key of its config. A file is a hint: it is
 * checked when it is read, a broken one counts as none, and that it cannot be written changes
 * nothing.
 */
#pragma once

#include <stdint.h>

#include "supervisor/hub/era.h"
#include "supervisor/hub/tools.h"

enum {
        HUB_CACHE_FILE_MAX = 20 * 1024 * 1024,
        HUB_CACHE_FILES_MAX = 2048,
        HUB_CACHE_DAYS = 60, /* a file not used for so long goes */
        HUB_INSTRUCTIONS_MAX = 16 * 1024,
};

/* Opens the folder, makes it when it is missing, removes what is too old. Returns its descriptor or
 * negative errno. */
int hub_cache_open(int state_dir);

/* What is kept of a server. */
struct hub_cache_entry {
        struct hub_tools *tools; /* sealed */
        char *instructions;      /* or NULL */
        enum hub_era era;
};

/* Returns 1 with the entry, whose parts are then the caller's, 0 when there is no usable file. */
int hub_cache_load(int dir, uint64_t key, const char *server, struct hub_cache_entry *ret);

/* Replaces the file in one step. Returns 0 or negative errno. */
int hub_cache_save(int dir, uint64_t key, const struct hub_cache_entry *entry);
