/*
 * Builds an image from a root file system or a container image.
 *
 * Theory of operation: copy the tree, or unpack the layers, into the store's new directory. Write Cloister's own files over it.
 * Run its Python there, confined, to find its parts; or add the Python of another image. Rename the image (store.h).
 */
#include "rootfs/image-import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/plural.h"
#include "rootfs/borrowed-python.h"
#include "rootfs/copy.h"
#include "rootfs/image-record.h"
#include "rootfs/oci-import.h"
#include "rootfs/process.h"
#include "rootfs/progress.h"
#include "rootfs/store.h"

enum { MIB = 1024 * 1024 };

/* One import. */
struct import {
        const struct image_build_options *options;
        const char *source; /* the directory, or the container image, as the user named it */
        int store;
        char path[PATH_MAX];      /* STORE/.tmp-NAME */
        char root_path[PATH_MAX]; /* and /root in it */
        struct progress progress;
        struct image_info info;
        struct tree_totals totals;
        struct oci_image container; /* of options->oci */
        char lender
                [IMAGE_NAME_SIZE]; /* the default image, if the tree has no Python; "" otherwise */
};

/* ---- its Python ---- */

static bool is_file_inside(int root, const char *path)
{
        _cleanup_close_ int fd = process_open_inside(root, path, O_PATH);
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

/* The first python3 in the PATH of a container image. */
static bool is_in_search(int root, const char *search, char ret[PATH_MAX])
{
        for (const char *at = search; *at; at += *at == ':') {
                size_t n = strcspn(at, ":");
                snprintf(ret, PATH_MAX, "%.*s/python3", (int)n, at);
                at += n;
                if (path_is_clean(ret) && is_file_inside(root, ret))
                        return true;
        }
        return false;
}

/* A container image with programs of another kind. Its sessions get the Python of this machine, which starts these programs. */
static int lend_default(struct import *import, struct error *err)
{
        const struct image_build_options options = {
                .store = import->options->store, .link = INTERPRETER_LINK_ANY, .quiet = true};
        struct image_info info = {};

        progress_stage(&import->progress, "building the default image, for its Python");
        int r = image_build(&options, &info, err);
        snprintf(import->lender, sizeof(import->lender), "%s", info.name);
        return r < 0 ? error_context(err,
                                     "%s has no python3, and that of this machine cannot be added",
                                     import->source)
                     : 0;
}

static int find_python(const struct import *import, int root, char ret[PATH_MAX], struct error *err)
{
        static const char *const usual[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                            "/bin/python3", "/opt/python/bin/python3"};
        const char *given = import->options->python;

        if (given && strcmp(given, IMAGE_PYTHON_DEFAULT) != 0) {
                snprintf(ret, PATH_MAX, "%s", given);
                return is_file_inside(root, given)
                               ? 0
                               : error_set(err, ENOENT, "%s contains no program %s", import->source,
                                           given);
        }
        if (is_in_search(root, import->container.search, ret))
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
                snprintf(ret, PATH_MAX, "%s", usual[i]);
                if (is_file_inside(root, usual[i]))
                        return 0;
        }
        return error_set(
                err, ENOENT,
                import->options->oci
                        ? "%s: no python3 in it: name its path inside with --python, or leave --link out"
                        : "%s: no python3 in it (mmdebstrap --include=python3), or name its path inside with --python",
                import->source);
}

static int ask_python(struct import *import, int root, struct interpreter *in, struct error *err)
{
        const struct image_build_options *options = import->options;
        char python[PATH_MAX];
        const char *lender = options->python_from;
        bool is_named = options->python && strcmp(options->python, IMAGE_PYTHON_DEFAULT) != 0;

        int r = lender ? 0 : find_python(import, root, python, err);
        if (r == -ENOENT && options->oci && !is_named && options->link == INTERPRETER_LINK_ANY) {
                *err = (struct error){};
                r = lend_default(import, err);
                lender = import->lender;
        }
        if (r >= 0 && lender) {
                r = borrowed_python_add(import->store, lender, root, python, &import->progress,
                                        &import->totals, err);
                if (r >= 0)
                        r = interpreter_ask_inside(import->root_path, root, python,
                                                   INTERPRETER_LINK_LAUNCHED, in, err);
                return r;
        }
        if (r >= 0)
                r = interpreter_ask_inside(import->root_path, root, python, options->link, in, err);
        if (r >= 0 && options->link != INTERPRETER_LINK_ANY && options->link != (int)in->link)
                r = error_set(err, ENOTSUP, "%s: its Python supports only --link %s",
                              import->source, image_link_name(in->link));
        return r;
}

static int describe(struct import *import, int root, struct error *err)
{
        _cleanup_interpreter_ struct interpreter in = {};
        struct image_info again, *info = &import->info;

        int r = ask_python(import, root, &in, err);
        if (r < 0)
                return r;
        snprintf(info->name, sizeof(info->name), "%s", import->options->name);
        image_record_take(info, &in, import->source);
        if (!image_record_storable(info, import->source, &again, err))
                return error_set(err, EINVAL, "%s contains a path that is too long or not UTF-8",
                                 import->source);
        info->bytes = import->totals.bytes;
        info->files = import->totals.files;
        return 0;
}

/* ---- its files ---- */

/* A container image has the directory in which its programs start. */
static void check_workdir(struct import *import, int root)
{
        const char *workdir = import->container.workdir;

        if (!*workdir)
                return;
        _cleanup_close_ int fd = process_open_inside(root, workdir, O_PATH | O_DIRECTORY);
        if (fd >= 0)
                return;
        progress_clear(&import->progress);
        fputs("cloister: its WorkingDir is not in the image: sessions start in /workspace\n",
              stderr);
}

static int unpack_container(struct import *import, int directory, struct error *err)
{
        struct oci_image *container = &import->container;

        int r = oci_import(import->source, directory, import->path, import->options->with_private,
                           &import->progress, container, err);
        import->totals = (struct tree_totals){.bytes = container->bytes,
                                              .files = container->files,
                                              .left_out = container->left_out,
                                              .private = container->private};
        if (r < 0)
                return r == -ENOSPC || r == -EDQUOT ? r : error_context(err, "%s", import->source);
        int root = openat(directory, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "%s", import->root_path);
        r = tree_put_ours(root, buffer_bytes(&container->settings), &import->progress, err);
        if (r < 0) {
                close(root);
                return r == -ENOSPC || r == -EDQUOT ? r : error_context(err, "%s", import->source);
        }
        check_workdir(import, root);
        return root;
}

/* Returns its root. */
static int fill(struct import *import, int directory, struct error *err)
{
        if (import->options->oci)
                return unpack_container(import, directory, err);
        int root = image_record_make_root(directory, import->root_path, err);
        if (root < 0)
                return root;
        progress_stage(&import->progress, "copying %s", import->source);
        int r = tree_copy(import->source, root, import->options->with_private, &import->progress,
                          &import->totals, err);
        if (r >= 0) {
                r = tree_put_ours(root, NULL, &import->progress, err);
                if (r < 0 && r != -ENOSPC && r != -EDQUOT)
                        error_context(err, "%s", import->source);
        }
        if (r >= 0)
                return root;
        close(root);
        return r;
}

static int make(struct import *import, int directory, struct error *err)
{
        _cleanup_close_ int root = fill(import, directory, err);
        if (root < 0)
                return root;
        progress_stage(&import->progress, "inspecting its Python, confined");
        int r = describe(import, root, err);
        if (r < 0)
                return r;
        progress_stage(&import->progress, "writing to disk");
        return store_commit(import->store, import->options->name, &import->info, err);
}

static int no_room(const struct import *import, int r, struct error *err)
{
        if (r != -ENOSPC && r != -EDQUOT)
                return r;
        return error_set(
                err, -r,
                "image store %s: no space left for %s: make room, or set CLOISTER_IMAGE_STORE to another disk",
                import->options->store, import->source);
}

static void report(const struct import *import)
{
        const struct image_info *info = &import->info;

        fprintf(stderr,
                "cloister: image %s: Python %s%s%s, %" PRIu64 " files, %" PRIu64 " MiB, %" PRIu64
                " left out, in %.1f s\n",
                info->name, info->version, *import->lender ? " of image " : "", import->lender,
                info->files, info->bytes / MIB, import->totals.left_out,
                progress_seconds(&import->progress));
        if (import->options->oci)
                fprintf(stderr, "cloister: image %s: %" PRIu64 " layer%s of sha256:%s\n",
                        info->name, import->container.layers, plural(import->container.layers),
                        import->container.digest);
}

static int import_locked(struct import *import, struct error *err)
{
        const struct image_build_options *options = import->options;

        int r = store_find(import->store, options->name, &import->info, err);
        if (r > 0)
                return image_record_taken(options->name, err, "", "");
        if (r < 0)
                return r;
        store_sweep(import->store);
        _cleanup_close_ int directory = store_begin(import->store, options->name, err);
        if (directory < 0)
                return directory;
        r = no_room(import, make(import, directory, err), err);
        progress_clear(&import->progress);
        if (r < 0 || !options->quiet)
                image_record_print_private(&import->totals.private, "--private takes them");
        if (r < 0) {
                store_abandon(import->store, options->name);
                return r;
        }
        if (!options->quiet)
                report(import);
        return 1;
}

/* With --private, only the owner of the store may enter it. */
static int check_store(const struct image_build_options *options, int store, struct error *err)
{
        struct stat st;

        if (!options->with_private)
                return 0;
        if (fstat(store, &st) < 0)
                return error_errno(err, errno, "image store %s", options->store);
        return (st.st_mode & 077) == 0
                       ? 0
                       : error_set(
                                 err, EPERM,
                                 "--private: other users can enter the image store %s: chmod 700 it, or set CLOISTER_IMAGE_STORE to a directory that only you can enter",
                                 options->store);
}

int image_import(const struct image_build_options *options, struct image_info *ret,
                 struct error *err)
{
        struct import import = {.options = options,
                                .source = options->oci ? options->oci : options->rootfs};

        if (!options->name || !image_name_valid(options->name))
                return error_set(err, EINVAL, "%s needs --name: what the image is to be called",
                                 options->oci ? "--oci" : "--rootfs");
        if (snprintf(import.path, sizeof(import.path), "%s/.tmp-%s", options->store,
                     options->name) >= PATH_MAX - (int)sizeof("/root") ||
            strlen(import.source) >= PATH_MAX)
                return error_errno(err, ENAMETOOLONG, "image store %s", options->store);
        snprintf(import.root_path, sizeof(import.root_path), "%s/root", import.path);
        _cleanup_close_ int store = store_open(options->store, true, err);
        if (store < 0)
                return store;
        if (check_store(options, store, err) < 0)
                return -EPERM;
        import.store = store;
        progress_begin(&import.progress, options->name, options->quiet);
        _cleanup_close_ int lock = store_lock(store, options->name, true, err);
        if (lock < 0)
                return lock;
        mode_t mask = umask(022);
        int r = import_locked(&import, err);
        umask(mask);
        if (r >= 0 && ret)
                *ret = import.info;
        oci_image_done(&import.container);
        return r;
}
