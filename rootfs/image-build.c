/*
 * Makes an image from the host's own CPython.
 *
 * Theory of operation: ask the interpreter where its parts are (interpreter.h); collect what the
 * image is to contain (contents.h, plan.h), so that a disk too small is known before it is full;
 * copy (copy.h) into STORE/.tmp-NAME; compile the sources that lack a compiled file and write the
 * loader's cache, both best effort; then give it its name (store.h). The name's lock is held
 * throughout.
 */
#include "rootfs/image-build.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "rootfs/contents.h"
#include "rootfs/copy.h"
#include "rootfs/process.h"
#include "rootfs/progress.h"
#include "rootfs/store.h"

enum { COMPILE_MS = 15 * 60 * 1000, CACHE_MS = 30 * 1000, WORDS_MAX = 4096, MIB = 1024 * 1024 };

struct build {
        const struct image_build_options *options;
        const char *python;
        struct image_info info;
        struct progress progress;
        struct interpreter interpreter;
        struct plan *plan;
        int store;
        char root[PATH_MAX];          /* STORE/.tmp-NAME/root */
        char before[IMAGE_NAME_SIZE]; /* what a default image was called when the build began */
};

int image_look(const char *path, struct image_stamp *ret)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        *ret = (struct image_stamp){
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        };
        return 0;
}

/* Blocks for data, and for the inodes where the file system makes them as needed. */
static uint64_t needed(const struct plan *plan)
{
        return plan->bytes + plan->n * 512 + plan->stale * 16 * 1024 + 4 * MIB;
}

static int no_space(const struct build *b, uint64_t available, struct error *err)
{
        return error_set(err, ENOSPC,
                         "image store %s: no space left: the image needs %" PRIu64 " MiB, %" PRIu64
                         " MiB are free: make room, or set CLOISTER_IMAGE_STORE to another disk",
                         b->options->store, needed(b->plan) / MIB + 1, available / MIB);
}

static int check_space(const struct build *b, struct error *err)
{
        struct statvfs fs;

        if (fstatvfs(b->store, &fs) < 0)
                return error_errno(err, errno, "image store %s", b->options->store);
        uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
        if (available < needed(b->plan))
                return no_space(b, available, err);
        if (fs.f_files > 0 && fs.f_favail < b->plan->n)
                return error_set(err, ENOSPC,
                                 "image store %s: the image needs %zu files, the file system has "
                                 "room for %" PRIu64,
                                 b->options->store, b->plan->n, (uint64_t)fs.f_favail);
        return 0;
}

static int full(const struct build *b, int r, struct error *err)
{
        struct statvfs fs = {};

        if (r == -EDQUOT)
                return error_set(err, EDQUOT,
                                 "image store %s: over quota: the image needs %" PRIu64 " MiB",
                                 b->options->store, needed(b->plan) / MIB + 1);
        fstatvfs(b->store, &fs);
        return no_space(b, (uint64_t)fs.f_bavail * fs.f_frsize, err);
}

static int copy(struct build *b, int directory, struct error *err)
{
        if (mkdirat(directory, "root", 0755) < 0)
                return error_errno(err, errno, "make %s", b->root);
        _cleanup_close_ int root = openat(directory, "root",
                                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (root < 0)
                return error_errno(err, errno, "open %s", b->root);
        progress_stage(&b->progress, "copying %" PRIu64 " files, %" PRIu64 " MiB", b->plan->files,
                       b->plan->bytes / MIB);
        int r = copy_plan(root, b->plan, &b->progress, err);
        return r == -ENOSPC || r == -EDQUOT ? full(b, r, err) : r;
}

/* Runs a program whose failure an image survives. */
static void best_effort(const char *const argv[], int timeout_ms)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(WORDS_MAX);
        struct process process;
        struct error error = {};
        int status = 0;

        if (process_start(argv, &process, &error) < 0 ||
            process_finish(&process, timeout_ms, &output, NULL, &status, &error) < 0)
                log_warning("%s: %s", argv[0], error.text);
        else if (status != 0)
                log_debug("%s %s: status %d", argv[0], argv[1], status);
}

/* Compiles what came without a valid .pyc: an import would do it at each start, as the image is
 * read-only. Files that do not compile are for the importer to complain about. */
static void compile(struct build *b)
{
        yyjson_val *const lists[] = {b->interpreter.standard, b->interpreter.packages};
        yyjson_val *path;
        size_t k, n;

        if (b->plan->stale == 0)
                return;
        progress_stage(&b->progress, "compiling %" PRIu64 " module%s", b->plan->stale,
                       b->plan->stale == 1 ? "" : "s");
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                yyjson_arr_foreach(lists[i], k, n, path)
                {
                        char real[PATH_MAX], folder[2 * PATH_MAX];
                        const char *const argv[] = {b->interpreter.executable,
                                                    "-I",
                                                    "-B",
                                                    "-m",
                                                    "compileall",
                                                    "-q",
                                                    "-q",
                                                    "-j",
                                                    "0",
                                                    "--invalidation-mode",
                                                    "timestamp",
                                                    "-s",
                                                    b->root,
                                                    "-p",
                                                    "/",
                                                    folder,
                                                    NULL};
                        /* A link on the way would lead out of the image. */
                        if (!realpath(yyjson_get_str(path), real))
                                continue;
                        snprintf(folder, sizeof(folder), "%s%s", b->root, real);
                        best_effort(argv, COMPILE_MS);
                }
}

/* Libraries in folders that the loader does not search by default are found through its cache. */
static void write_cache(struct build *b)
{
        const char *const argv[] = {"/sbin/ldconfig", "-X", "-r", b->root, NULL};

        if (access(argv[0], X_OK) == 0)
                best_effort(argv, CACHE_MS);
}

/* What image.json will say, before anything is written: a path that does not survive it makes no
 * image. */
static int describe(struct build *b, struct error *err)
{
        const struct interpreter *in = &b->interpreter;
        time_t now = time(NULL);
        struct tm t;

        snprintf(b->info.python, sizeof(b->info.python), "%s", in->executable);
        snprintf(b->info.libpython, sizeof(b->info.libpython), "%s", in->libpython);
        b->info.link = in->link;
        snprintf(b->info.version, sizeof(b->info.version), "%s", in->version);
        snprintf(b->info.source, sizeof(b->info.source), "%s", b->python);
        strftime(b->info.created, sizeof(b->info.created), "%Y-%m-%dT%H:%M:%SZ",
                 gmtime_r(&now, &t));
        b->info.bytes = b->plan->bytes;
        b->info.files = b->plan->files;

        _cleanup_buffer_ struct buffer text = BUFFER_INIT(IMAGE_JSON_MAX);
        struct image_info again;
        if (strlen(b->python) >= sizeof(b->info.source) || image_info_append(&text, &b->info) < 0 ||
            image_info_parse(buffer_bytes(&text), text.length, &again, err) < 0 ||
            strcmp(again.source, b->python) != 0 || strcmp(again.python, in->executable) != 0 ||
            strcmp(again.libpython, in->libpython) != 0)
                return error_set(
                        err, EINVAL,
                        "%s: its path is too long or is not plain UTF-8: move it elsewhere",
                        b->python);
        return 0;
}

/* An upgrade in the middle would mix two versions in one image. */
static int check_unchanged(const struct build *b, struct error *err)
{
        char after[IMAGE_NAME_SIZE];

        int r = image_default_name(b->python, image_look, after, err);
        if (r >= 0 && strcmp(b->before, after) != 0)
                return error_set(err, EAGAIN, "%s changed while it was copied: try again",
                                 b->python);
        return r;
}

/* Everything between the empty directory and the name. */
static int fill(struct build *b, int directory, struct error *err)
{
        int r = copy(b, directory, err);
        if (r < 0)
                return r;
        compile(b);
        write_cache(b);
        if ((r = check_unchanged(b, err)) < 0)
                return r;
        progress_stage(&b->progress, "writing to disk");
        r = store_commit(b->store, b->info.name, &b->info, err);
        return r == -ENOSPC || r == -EDQUOT ? full(b, r, err) : r;
}

static int make_whole(struct build *b, struct error *err)
{
        int r;

        progress_stage(&b->progress, "asking %s", b->python);
        if ((r = image_default_name(b->python, image_look, b->before, err)) < 0 ||
            (r = interpreter_ask(b->python, b->options->link, &b->interpreter, err)) < 0 ||
            (r = contents_plan(b->plan, &b->interpreter, err)) < 0 || (r = describe(b, err)) < 0 ||
            (r = check_space(b, err)) < 0)
                return r;
        _cleanup_close_ int directory = store_begin(b->store, b->info.name, err);
        if (directory < 0)
                return directory;
        r = fill(b, directory, err);
        if (r < 0)
                store_abandon(b->store, b->info.name);
        return r;
}

static void report(struct build *b)
{
        yyjson_val *path;
        size_t i, n;

        progress_clear(&b->progress);
        if (b->options->quiet)
                return;
        fprintf(stderr,
                "cloister: image %s: Python %s, %" PRIu64 " files, %" PRIu64 " MiB, in %.1f s\n",
                b->info.name, b->info.version, b->info.files, b->info.bytes / MIB,
                progress_seconds(&b->progress));
        if (b->plan->left_out > 0)
                fprintf(stderr,
                        "cloister: left out: %" PRIu64
                        " files that can't be read, or links that lead elsewhere\n",
                        b->plan->left_out);
        yyjson_arr_foreach(b->interpreter.others, i, n, path)
                fprintf(stderr,
                        "cloister: left out: %s, which is in sys.path but not in site-packages (an "
                        "editable install?)\n",
                        yyjson_get_str(path));
}

/* Returns 1 when the image is there and from this interpreter. */
static int find(struct build *b, struct error *err)
{
        struct image_info info;

        int r = store_find(b->store, b->info.name, &info, err);
        if (r <= 0)
                return r;
        if (strcmp(info.source, b->python) != 0)
                return error_set(err, EEXIST,
                                 "image %s is there already, made from %s: choose another name, or "
                                 "remove %s/%s",
                                 b->info.name, info.source, b->options->store, b->info.name);
        if (b->options->link != INTERPRETER_LINK_ANY && (int)info.link != b->options->link)
                return error_set(err, EEXIST,
                                 "image %s is there already, made with --link %s: choose another "
                                 "name, or remove %s/%s",
                                 b->info.name, image_link_name(info.link), b->options->store,
                                 b->info.name);
        b->info = info;
        return 1;
}

static int build_locked(struct build *b, struct error *err)
{
        int r = find(b, err);

        if (r != 0)
                return r < 0 ? r : 0;
        _cleanup_close_ int lock = store_lock(b->store, b->info.name, false, err);
        if (lock == -EWOULDBLOCK) {
                progress_stage(&b->progress, "waiting for another process that makes it");
                lock = store_lock(b->store, b->info.name, true, err);
        }
        if (lock < 0)
                return lock;
        /* Another may have made it since, whether we had to wait for its lock or not. */
        if ((r = find(b, err)) == 0) {
                store_sweep(b->store);
                r = make_whole(b, err);
        } else if (r > 0) {
                progress_clear(&b->progress);
                return 0;
        }
        if (r < 0) {
                progress_clear(&b->progress);
                return r;
        }
        report(b);
        return 1;
}

static int choose_name(struct build *b, struct error *err)
{
        if (!b->options->name)
                return image_default_name(b->python, image_look, b->info.name, err);
        if (!image_name_valid(b->options->name))
                return error_set(
                        err, EINVAL,
                        "\"%s\" is no name for an image: letters, digits, _ . and -, 64 at "
                        "most",
                        b->options->name);
        snprintf(b->info.name, sizeof(b->info.name), "%s", b->options->name);
        return 0;
}

int image_build(const struct image_build_options *options, struct image_info *ret,
                struct error *err)
{
        _cleanup_plan_ struct plan *plan = plan_new();
        struct build b = {
                .options = options,
                .python = options->python ? options->python : IMAGE_PYTHON_DEFAULT,
                .plan = plan,
        };

        if (!plan)
                return error_errno(err, ENOMEM, "image");
        int r = choose_name(&b, err);
        if (r < 0)
                return r;
        _cleanup_close_ int store = store_open(options->store, true, err);
        if (store < 0)
                return store;
        b.store = store;
        if (snprintf(b.root, sizeof(b.root), "%s/.tmp-%s/root", options->store, b.info.name) >=
            (int)sizeof(b.root))
                return error_errno(err, ENAMETOOLONG, "image store %s", options->store);
        progress_begin(&b.progress, b.info.name, options->quiet);
        mode_t mask = umask(022);
        r = build_locked(&b, err);
        umask(mask);
        interpreter_done(&b.interpreter);
        if (r >= 0 && ret)
                *ret = b.info;
        return r;
}
