/* Parts of building an image that all kinds of images have: the empty root, what image.json says, errors, and the list of files
 * that were left out. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/image.h"
#include "rootfs/interpreter.h"
#include "rootfs/plan.h"

/* Makes `root` in a directory. path is its path, for errors. Returns its descriptor. */
int image_record_make_root(int directory, const char *path, struct error *err);

/* Fills what the interpreter and the clock tell. */
void image_record_take(struct image_info *info, const struct interpreter *in, const char *source);

/* Whether all paths can be stored in image.json. *again is what is read back. */
bool image_record_storable(const struct image_info *info, const char *source,
                           struct image_info *again, struct error *err);

/* The error that the name is that of another image. how and of say which: ", made from ", "/usr/bin/python3". */
int image_record_taken(const char *name, struct error *err, const char *how, const char *of);

/* One line on standard error, if there are any. remedy: what takes them. */
void image_record_print_private(const struct private_files *files, const char *remedy);
