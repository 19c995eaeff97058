/*
 * The cached tools of each server: one file for each server in the directory `catalogue` of the state
 * directory, named by the key of its config. A file is checked when it is read, and an invalid one is
 * ignored. The hub works the same if no file can be written.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "supervisor/hub/tools/tools.h"

/* The two eras of MCP: legacy (to 2025-11-25), where a connection begins with initialize, and modern
 * (from 2026-07-28), where each request carries what initialize said. */
enum hub_era { HUB_ERA_UNKNOWN, HUB_ERA_LEGACY, HUB_ERA_MODERN, HUB_ERA_MAX };

const char *hub_era_name(enum hub_era era);

enum {
        HUB_CACHE_FILE_MAX = 6 * 1024 * 1024,
        HUB_CACHE_FILES_MAX = 2048,
        HUB_CACHE_BYTES_MAX = 256 * 1024 * 1024,
        HUB_CACHE_FINISH_MS = 2000,
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

/* The same from content, within the limits of the cache. -ENOSPC: there is no room for it. */
int hub_cache_store(int dir, uint64_t key, const char *content, size_t n);

/*
 * ---- the process that writes the files ----
 *
 * The broker does not write them, because it parses untrusted bytes and must not be able to fill the disk. The process
 * gets the content of a file as a sealed memfd with the file's key. The cache has at most HUB_CACHE_FILES_MAX files of
 * HUB_CACHE_FILE_MAX bytes, and HUB_CACHE_BYTES_MAX in total: what does not fit is not written.
 */

/* A message of the broker, over a SOCK_SEQPACKET socket. With one descriptor: the content of the key's file; with none:
 * the file was used. */
struct cache_request {
        uint64_t key;
};

/* From now on the process writes; `socket` is borrowed for the life of this one. */
void hub_cache_use_writer(int socket);
/* Waits until it has written what it was sent, for at most HUB_CACHE_FINISH_MS. It ends. */
void hub_cache_finish(void);
/* Returns 0 or negative errno; -EAGAIN: the process does not keep up. */
int cache_request_store(int socket, uint64_t key, const void *content, size_t n);
/* The process itself: serves until the socket's other end is closed. dir: the open cache. */
void cache_writer_serve(int socket, int dir);
