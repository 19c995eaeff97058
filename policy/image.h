/*
 * The metadata of an image: image.json beside its root (docs/images.md). Written by rootfs/, read
 * by the monitor, which does not trust the store and checks every member.
 *
 *     STORE/NAME/image.json
 *     STORE/NAME/root/…
 *
 * {"format": 1, "name", "created", "python": "/usr/bin/python3.11", "version": "3.11.2",
 *  "link": "embed", "libpython": "/usr/lib/…/libpython3.11.so.1.0", "source": "…", "bytes": n,
 *  "files": n, "node": "/usr/bin/node", "pyodide": "…", "base": "default-…", "set": "…", "packages": [{"name", "version", "sha256"?}]};
 * "link" defaults to embed; with module there is no libpython
 *
 * Beside the images a store has small files of its own, which the monitor reads too:
 *
 *     STORE/.parts-KEY    paths of the host's files that the default image of an interpreter has
 *                         besides Python's own, one per line: an upgrade of one makes a new image;
 *                         and those of the image that has a Node as well
 *     STORE/.set-KEY      name of the image that a set of packages was made to
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/path.h"
#include "policy/template-link.h"

/* IMAGE_RECIPE: the version of the builder's output; raise it when old images must be rebuilt. */
/* Beside image.json: locked by those who use the image (rootfs/store.h). */
#define IMAGE_LOCK "lock"

enum { IMAGE_FORMAT = 1, IMAGE_RECIPE = 6, IMAGE_JSON_MAX = 1024 * 1024, IMAGE_NAME_SIZE = 65 };
enum { IMAGE_PARTS_MAX = 1024 * 1024, IMAGE_KEY_SIZE = 17 };

#define IMAGE_PYTHON_DEFAULT "/usr/bin/python3"

struct image_info {
        char name[IMAGE_NAME_SIZE]; /* image_name_valid() */
        char python[256];           /* absolute paths inside the image */
        char libpython[256];        /* "" for TEMPLATE_LINK_MODULE */
        enum template_link link;
        char version[16];
        char created[32];           /* RFC 3339 */
        char source[256];           /* the host interpreter it was made from */
        char node[256];             /* the host's Node that was added; "" for none */
        char pyodide[256];          /* npm's package that was added to it; "" for none */
        char base[IMAGE_NAME_SIZE]; /* the default image's name when it was made; "" if unknown */
        char set[IMAGE_KEY_SIZE];   /* key of the packages that were asked for; "" if none were */
        uint64_t bytes, files;
        uint64_t n_packages;
        const char
                *packages; /* JSON of "packages", for image_info_append() (borrowed); else NULL */
};

int image_info_parse(const char *data, size_t n, struct image_info *ret, struct error *err);

/* Whether a struct that another process has filled holds what image_info_parse() gives: texts are
 * terminated and printable, paths are absolute without ".." members. Ignores packages. */
bool image_info_valid(const struct image_info *info);

/* Writes what image_info_parse() reads. Returns 0, -ENOMEM, -EMSGSIZE. */
int image_info_append(struct buffer *b, const struct image_info *info);

/* "embed", "module"; -1 for any other word. */
const char *image_link_name(enum template_link link);
int image_link_parse(const char *word);

/* [A-Za-z0-9_.-]{1,64}, not starting with a dot: hidden names in a store are its own. */
bool image_name_valid(const char *name);

/* Identifies a version of a file, by stat() (following links). */
struct image_stamp {
        uint64_t inode, size; /* no device: its number may differ after each boot */
        int64_t mtime_ns;
};

/* FNV-1a, for names: it tells versions apart, it protects nothing. */
#define IMAGE_HASH_START 0xcbf29ce484222325U
uint64_t image_hash(uint64_t hash, const void *data, size_t n);

/*
 * The name of the default image of an interpreter: default-<12 hex digits>, a hash over the
 * interpreter's path, its file, its pyvenv.cfg and site-packages, IMAGE_RECIPE, and the files named
 * in `parts`, so that an upgrade (of a shared library too) or an installed package makes a new
 * image. It starts nothing and is cheap enough for every start (some 200 calls of stat). look gives
 * the stamp of a path, or negative errno; a missing interpreter is an error, the others may be
 * missing. python is absolute, NULL means IMAGE_PYTHON_DEFAULT. parts: what STORE/.parts-KEY says;
 * NULL where there is none yet.
 */
int image_default_name(const char *python, const char *parts,
                       int (*look)(const char *path, struct image_stamp *ret),
                       char ret[IMAGE_NAME_SIZE], struct error *err);

/* The name of the default image that has this Node too, from the name without it. NULL or "": no change. parts: what STORE/.parts-KEY
 * of the Node says; NULL where there is none yet. */
int image_name_add_node(char name[IMAGE_NAME_SIZE], const char *node, const char *parts,
                        int (*look)(const char *path, struct image_stamp *ret), struct error *err);

/* Of npm's package "pyodide": what changes with its version. */
#define PYODIDE_FILE "package.json"

/* From such a name that of the image which has this Pyodide too. NULL or "": no change. */
int image_name_add_pyodide(char name[IMAGE_NAME_SIZE], const char *pyodide,
                           int (*look)(const char *path, struct image_stamp *ret),
                           struct error *err);

/* Whether a name is one of image_default_name() or image_name_add_node(). */
bool image_name_is_default(const char *name);

/* KEY of the .parts file of an interpreter, or of a Node. */
void image_parts_key(const char *python, char ret[IMAGE_KEY_SIZE]);

/* Values of the environment that decide where images are; NULL where not set. */
struct image_store_env {
        const char *store;     /* CLOISTER_IMAGE_STORE */
        const char *state;     /* the directory of a service (base/places.h) */
        const char *data_home; /* XDG_DATA_HOME */
        const char *home;      /* HOME, else the passwd entry's */
};

/* The store: $CLOISTER_IMAGE_STORE, else images in the directory of a service, else /var/lib/cloister/images for root,
 * $XDG_DATA_HOME/cloister/images or
 * ~/.local/share/cloister/images for others. Relative values do not count (as the XDG specification
 * has it). */
int image_store_path(uid_t euid, const struct image_store_env *env, char *ret, size_t size,
                     struct error *err);

/* compared: what owner_compare() has returned for the store and the user who makes images.
 * Returns 0, or -EPERM and the line that says what to do: images that another user can change are not
 * used. Other errors stay. */
int image_store_owned(const char *path, int compared, const struct owner_difference *difference,
                      struct error *err);
