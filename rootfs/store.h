/*
 * The store of images: a directory with one directory an image, and hidden names of its own.
 *
 *     STORE/NAME/image.json, STORE/NAME/root/…    a complete image; it appears by one rename
 *     STORE/NAME/lock                             locked by those who use the image
 *     STORE/.lock-NAME                            held (flock) by the builder of NAME
 *     STORE/.tmp-NAME                             being built; stale when no process holds the lock
 *     STORE/.parts-KEY, STORE/.set-KEY            policy/image.h
 *     STORE/.cache/                               wheels (packages.h)
 *
 * A process that uses an image holds a shared lock on its file `lock`, an open file description lock
 * (fcntl(2), F_OFD_SETLK). Who removes an image takes the exclusive one, which the kernel gives only to
 * a descriptor open for writing, so to the store's owner. Other users who can read the store can
 * therefore keep an image from being removed, but not from being used, as they could with flock().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "policy/image.h"
#include "rootfs/plan.h"

/* Opens the store; `make`: creates it if it is missing. Returns a directory descriptor. */
int store_open(const char *path, bool make, struct error *err);

/* The permissions that a file must have so that all who can enter the store may read it: S_IRGRP and S_IROTH, or 0 if its
 * owner alone can. A group that can enter it may be another one than that of a file. */
mode_t store_readers(const char *path);

/* Returns 1 and the content of image.json, 0 if there is no such image, negative errno if the
 * directory is not a valid image. */
int store_find(int store, const char *name, struct image_info *ret, struct error *err);

/* Locks a name. Returns the lock's descriptor; closing it unlocks. If another process holds the
 * lock, waits, or, without `wait`, returns -EWOULDBLOCK (no error set). */
int store_lock(int store, const char *name, bool wait, struct error *err);

/* Removes what killed builds left, of any name. */
void store_sweep(int store);

/* Creates an empty STORE/.tmp-NAME and opens it. The caller holds the name's lock. */
int store_begin(int store, const char *name, struct error *err);
/* Renames the complete STORE/.tmp-NAME to info->name after all of it was written to disk. */
int store_commit(int store, const char *name, const struct image_info *info, struct error *err);
void store_abandon(int store, const char *name);
/* Removes a directory of the store recursively. Returns 0 or negative errno. */
int store_clear(int parent, const char *name);

/* Removes an image, atomically for other processes. Returns 1, 0 if there is none, -EBUSY (no error
 * set) if it is in use. */
int store_remove(int store, const char *name, struct error *err);

/* Small files of the store. Reading: *ret is owned by the caller, NULL if the file is missing.
 * Writing is atomic. */
char *store_read_note(int store, const char *kind, const char *key);
int store_write_note(int store, const char *kind, const char *key, const char *text,
                     struct error *err);

/* All images, sorted by name; *ret is owned by the caller. Returns their number. */
int store_list(int store, struct image_info **ret, struct error *err);

/* The files of the host that a default image contains are recorded, so that the upgrade of a shared library
 * leads to a new one (policy/image.h). stat() for image_default_name(). */
int store_stamp(const char *path, struct image_stamp *ret);
/* The records of an interpreter, and of a Node; NULL where there is none. */
struct store_parts {
        char *python, *node;
};
void store_parts_read(int store, const char *python, const char *node, struct store_parts *ret);
void store_parts_done(struct store_parts *parts);
/* The current name of the default image of an interpreter that has this Node and this Pyodide too (NULL or "": without), by these records:
 * it changes with the files of the host that they name. */
int store_parts_name(const struct store_parts *parts, const char *python, const char *node,
                     const char *pyodide, char ret[IMAGE_NAME_SIZE], struct error *err);
/* By the present records. */
int store_default_name(int store, const char *python, const char *node, const char *pyodide,
                       char ret[IMAGE_NAME_SIZE], struct error *err);
/* program: the interpreter, or a Node. */
bool store_knows_parts(int store, const char *program);
/* Records the files that the plan of a default image takes from the host. */
int store_write_parts(int store, const char *program, const struct plan *plan, struct error *err);

/* ---- housekeeping ---- */

/* Whether the image has a generated name and its interpreter or a library of it was upgraded or is
 * gone. */
bool housekeeping_is_stale(int store, const struct image_info *info);

/* After a default image was built: removes older ones of its interpreter that are not in use. */
void housekeeping_remove_older(int store, const struct image_info *made);

/* Removes every stale image that is not in use, .set files without an image, and wheels that no
 * image names. Calls report for each stale image; busy: the image is kept because it is in use.
 * *bytes is the size of the removed wheels. Returns the number of images removed, or negative
 * errno. */
int housekeeping_prune(int store, void (*report)(const struct image_info *info, bool busy),
                       uint64_t *bytes, struct error *err);
