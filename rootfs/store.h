/*
 * The store of images: a directory with one directory an image, and hidden names of its own.
 *
 *     STORE/NAME/image.json, STORE/NAME/root/…    a whole image; it appears by one rename
 *     STORE/.lock-NAME                            held (flock) by the one who builds NAME
 *     STORE/.tmp-NAME                             being built; stale when nobody holds the lock
 *     STORE/.parts-KEY, STORE/.set-KEY            policy/image.h
 *     STORE/.cache/                               wheels (packages.h)
 *
 * Who uses an image holds a shared lock (flock) on its directory.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/image.h"

/* Opens the store, which `make` makes when it is missing. Returns a directory descriptor. */
int store_open(const char *path, bool make, struct error *err);

/* Returns 1 and what the image says of itself, 0 when there is none of that name, negative errno
 * when there is something else. */
int store_find(int store, const char *name, struct image_info *ret, struct error *err);

/* Locks a name. Returns the lock's descriptor: closing unlocks. Held by another it is waited for,
 * or, without `wait`, -EWOULDBLOCK (no error set). */
int store_lock(int store, const char *name, bool wait, struct error *err);

/* Removes what builds that were killed have left, of any name. */
void store_sweep(int store);

/* With the name's lock held: makes an empty STORE/.tmp-NAME and opens it. */
int store_begin(int store, const char *name, struct error *err);
/* Makes STORE/.tmp-NAME, complete, the image info->name: all of it is on disk before its name is.
 */
int store_commit(int store, const char *name, const struct image_info *info, struct error *err);
void store_abandon(int store, const char *name);
/* Removes a directory of ours with all that is in it. */
void store_clear(int parent, const char *name);

/* Removes an image that nobody uses: at once as far as anybody sees, or not at all. Returns 1, 0
 * when there is none, -EBUSY (no error set) when it is in use. */
int store_remove(int store, const char *name, struct error *err);

/* The small files: one that is missing is NULL, owned by the caller; one appears whole. */
char *store_read_note(int store, const char *kind, const char *key);
int store_write_note(int store, const char *kind, const char *key, const char *text,
                     struct error *err);

/* All images, sorted by name; *ret is owned by the caller. Returns their number. */
int store_list(int store, struct image_info **ret, struct error *err);
