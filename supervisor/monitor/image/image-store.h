/*
 * The owner of the image store and of all that is in it: the user that builds images.
 *
 * The store of root is given to a user that the config names, once. That is done while root alone can
 * change the store, and only if no other Cloister uses or builds an image in it. A store that belongs
 * to another user is an error (base/path.h): images that another user can change are not used by
 * root, nor given to a third user.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/image.h"
#include "policy/package-set.h"
#include "supervisor/monitor/upstream/upstream-exec.h"

struct image_choice {
        char store[512];
        char python[512];           /* a path, or a version that is searched for each time */
        char node[512];             /* for the build: is added to the image; "": none */
        char pyodide[512];          /* the directory of npm's package; "": none */
        char name[IMAGE_NAME_SIZE]; /* "" until the store was read, unless a name was chosen */
        bool is_default;            /* built when it is missing; a named one is not */
        const char *link;           /* for the build: "embed", "module" or NULL */
        const char *rootfs;         /* a directory that it is built from, or NULL (borrowed) */
        const char *oci;         /* a container image that it is built from, or NULL (borrowed) */
        const char *python_from; /* of oci: the image whose Python it gets, or NULL (borrowed) */
        bool python_downloads;   /* uv may download the version */
        bool with_private;       /* of rootfs or oci: also what other users may not read */
        const struct package_set
                *set; /* packages that it contains, not empty, or NULL (borrowed) */
        char packages
                [IMAGE_NAME_SIZE]; /* profile whose sessions may have packages installed, or "" */
};

/* name and python may be NULL: the default image of the default interpreter. */
int image_choose(const char *name, const char *python, struct image_choice *ret, struct error *err);

/* The image that has a set of packages, on top of the default one. */
int image_choose_set(const struct package_set *set, const char *python, struct image_choice *ret,
                     struct error *err);

/* After one of these: an image that is built gets this Node, and this Pyodide unless it is NULL. nodejs: an absolute path; NULL: the first in PATH. */
int image_choose_node(struct image_choice *choice, const char *nodejs, const char *pyodide,
                      struct error *err);

/* The name of the default image of choice->python as of now (policy/image.h). parts, node_parts: contents of the
 * store's .parts files of the interpreter and of the Node, or NULL. */
int image_choice_default_name(const struct image_choice *choice, const char *parts,
                              const char *node_parts, char ret[IMAGE_NAME_SIZE], struct error *err);

/* An error when an image that is built when it is missing has no interpreter to be built from. */
int image_choice_check(const struct image_choice *choice, struct error *err);

/* Creates the store where it is missing, and gives it to the user. Not for the rootless mode. */
int image_store_create(const struct image_choice *choice, const struct upstream_user *user,
                       struct error *err);

/* An error when images in the store may be those of a user that Cloister does not run for. Call it as
 * the user. store: O_PATH. */
int image_store_check(int store, const char *path, const struct upstream_user *user,
                      struct error *err);
