/* The name of an entry in a layer (OCI image-spec, layer.md): where it lies below the root, and what a whiteout hides. */
#pragma once

#include <limits.h>

#define WHITEOUT_PREFIX ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

enum { LAYER_DEPTH_MAX = 128 };

enum layer_name_kind {
        LAYER_NAME_ROOT,     /* the root itself */
        LAYER_NAME_ENTRY,    /* a file, directory or link */
        LAYER_NAME_WHITEOUT, /* hides `base` of the layers below */
        LAYER_NAME_OPAQUE,   /* hides the content of `parent` of the layers below */
        LAYER_NAME_LEFT_OUT, /* below a directory that no image has, or of a storage driver */
};

struct layer_name {
        char parent[PATH_MAX];   /* "usr/lib"; "." for the root. No empty, "." or ".." component */
        char base[NAME_MAX + 1]; /* "" for LAYER_NAME_ROOT and LAYER_NAME_OPAQUE */
};

/*
 * Parses the name of an entry, or of the file that a hard link names. A leading "/" or "./" is the root. Returns a kind, or
 * negative errno: -EXDEV, it has a component ".."; -EINVAL, it is a whiteout of nothing, "." or ".."; -ENAMETOOLONG, the path or a
 * component is too long; -ELOOP, it is deeper than LAYER_DEPTH_MAX.
 */
int layer_name_parse(const char *name, struct layer_name *ret);

/* The fault of a name, for a negative result: "leads outside the root". */
const char *layer_name_problem(int code);
