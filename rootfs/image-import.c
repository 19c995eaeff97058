/* Builds an image from an imported root file system. */
#include "rootfs/image-import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "rootfs/progress.h"
#include "rootfs/store.h"
#include "rootfs/tree.h"

enum { MIB = 1024 * 1024 };

static bool is_file_inside(int root, const char *path)
{
        struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
        _cleanup_close_ int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

static int find_python(int root, const struct image_build_options *options, const char **ret,
                       struct error *err)
{
        static const char *const usual[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                            "/bin/python3", "/opt/python/bin/python3"};
        const char *given = options->python;

        if (given && strcmp(given, IMAGE_PYTHON_DEFAULT) != 0) {
                *ret = given;
                return is_file_inside(root, given)
                               ? 0
                               : error_set(err, ENOENT, "%s contains no program %s",
                                           options->rootfs, given);
        }
        for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
                *ret = usual[i];
                if (is_file_inside(root, usual[i]))
                        return 0;
        }
        return error_set(
                err, ENOENT,
                "%s: no python3 in it (mmdebstrap --include=python3), or name its path inside with --python",
                options->rootfs);
}

static int describe(const struct image_build_options *options, int root, const char *path,
                    struct image_info *info, struct error *err)
{
        _cleanup_interpreter_ struct interpreter in = {};
        const char *python = NULL;
        time_t now = time(NULL);
        struct tm t;

        int r = find_python(root, options, &python, err);
        if (r < 0 || (r = interpreter_ask_inside(path, root, python, options->link, &in, err)) < 0)
                return r;
        if (options->link != INTERPRETER_LINK_ANY && options->link != (int)in.link)
                return error_set(err, ENOTSUP, "%s: its Python supports only --link %s",
                                 options->rootfs, image_link_name(in.link));
        snprintf(info->name, sizeof(info->name), "%s", options->name);
        snprintf(info->python, sizeof(info->python), "%s", in.executable);
        snprintf(info->libpython, sizeof(info->libpython), "%s", in.libpython);
        info->link = in.link;
        snprintf(info->version, sizeof(info->version), "%s", in.version);
        snprintf(info->source, sizeof(info->source), "%s", options->rootfs);
        strftime(info->created, sizeof(info->created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &t));

        /* Paths that cannot be stored in image.json are refused. */
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info again;
        if (strlen(options->rootfs) >= sizeof(info->source) || image_info_append(&text, info) < 0 ||
            image_info_parse(buffer_bytes(&text), text.length, &again, err) < 0)
                return error_set(err, EINVAL, "%s contains a path that is too long or not UTF-8",
                                 options->rootfs);
        return 0;
}

static int full(const struct image_build_options *options, int r, struct error *err)
{
        return r != -ENOSPC && r != -EDQUOT
                       ? r
                       : error_set(
                                 err, -r,
                                 "image store %s: no space left for %s: make room, or set CLOISTER_IMAGE_STORE to another disk",
                                 options->store, options->rootfs);
}

static int fill(const struct image_build_options *options, int store, int directory,
                struct progress *progress, struct image_info *info, uint64_t *left_out,
                struct error *err)
{
        struct tree_totals totals = {};
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/.tmp-%s/root", options->store, options->name);
        if (mkdirat(directory, "root", 0755) < 0)
                return error_errno(err, errno, "make %s", path);
        _cleanup_close_ int root = openat(directory, "root",
                                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "open %s", path);
        progress_stage(progress, "copying %s", options->rootfs);
        int r = tree_copy(options->rootfs, root, progress, &totals, err);
        if (r < 0)
                return full(options, r, err);
        progress_stage(progress, "inspecting its Python, confined");
        r = describe(options, root, path, info, err);
        if (r < 0)
                return r;
        info->bytes = totals.bytes;
        info->files = totals.files;
        *left_out = totals.left_out;
        progress_stage(progress, "writing to disk");
        return full(options, store_commit(store, options->name, info, err), err);
}

static int import_locked(const struct image_build_options *options, int store,
                         struct progress *progress, struct image_info *info, struct error *err)
{
        uint64_t left_out = 0;

        int r = store_find(store, options->name, info, err);
        if (r > 0)
                return error_set(
                        err, EEXIST,
                        "image %s is there already: choose another name, or 'cloister image remove %s' first",
                        options->name, options->name);
        if (r < 0)
                return r;
        store_sweep(store);
        _cleanup_close_ int directory = store_begin(store, options->name, err);
        if (directory < 0)
                return directory;
        r = fill(options, store, directory, progress, info, &left_out, err);
        progress_clear(progress);
        if (r < 0) {
                store_abandon(store, options->name);
                return r;
        }
        if (!options->quiet)
                fprintf(stderr,
                        "cloister: image %s: Python %s, %" PRIu64 " files, %" PRIu64
                        " MiB, %" PRIu64 " left out, in %.1f s\n",
                        info->name, info->version, info->files, info->bytes / MIB, left_out,
                        progress_seconds(progress));
        return 1;
}

int image_import(const struct image_build_options *options, struct image_info *ret,
                 struct error *err)
{
        struct image_info info = {};
        struct progress progress;

        if (!options->name || !image_name_valid(options->name))
                return error_set(err, EINVAL,
                                 "--rootfs needs --name: what the image is to be called");
        _cleanup_close_ int store = store_open(options->store, true, err);
        if (store < 0)
                return store;
        progress_begin(&progress, options->name, options->quiet);
        _cleanup_close_ int lock = store_lock(store, options->name, true, err);
        if (lock < 0)
                return lock;
        mode_t mask = umask(022);
        int r = import_locked(options, store, &progress, &info, err);
        umask(mask);
        if (r >= 0 && ret)
                *ret = info;
        return r;
}
