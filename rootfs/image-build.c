/*
 * Builds an image from the host's CPython.
 *
 * Theory of operation: run the interpreter to find its parts (interpreter.h). Resolve and fetch
 * packages (packages.h), which determines the name of an image with packages, and unpack them
 * beside the root. Plan the content of the image (contents.h, plan.h), so that a lack of disk space
 * is noticed before copying. Copy (copy.h) to STORE/.tmp-SLOT. Compile sources without a compiled file
 * and write the loader's cache; both may fail. Move the packages in. Rename the image
 * (store.h). The lock of the slot is held throughout. The slot is the image's name, or, while the
 * name of a default image is not known yet, the interpreter's.
 */
#include "rootfs/image-build.h"

#include <dirent.h>
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

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/plural.h"
#include "rootfs/contents.h"
#include "rootfs/copy.h"
#include "rootfs/image-record.h"
#include "rootfs/packages.h"
#include "rootfs/process.h"
#include "rootfs/progress.h"
#include "rootfs/store.h"

enum {
        COMPILE_MS = 15 * 60 * 1000,
        CACHE_MS = 30 * 1000,
        WORDS_MAX = 4096,
        MIB = 1024 * 1024,
        DEPTH_MAX = 64,
        DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

struct build {
        const struct image_build_options *options;
        const char *python;
        struct image_info info;
        struct progress progress;
        struct interpreter interpreter;
        struct packages *packages; /* NULL: only the interpreter's own */
        char *loader;              /* the interpreter's dynamic loader, if there are packages */
        struct contents_layer layer;
        struct node node; /* with --node */
        uint64_t layer_bytes, layer_files;
        struct buffer list; /* list of packages, for image.json */
        struct plan *plan;
        int store;
        char slot[IMAGE_NAME_SIZE];
        char root[PATH_MAX];          /* STORE/.tmp-SLOT/root */
        char place[PATH_MAX];         /* STORE/.tmp-SLOT/packages */
        char npm_place[PATH_MAX];     /* STORE/.tmp-SLOT/npm */
        char begun[IMAGE_NAME_SIZE];  /* the default image's name before the build */
        struct store_parts parts;     /* of note_before() */
        char before[IMAGE_NAME_SIZE]; /* name of the default image, by them */
};

/* The name that the default image has now. */
static int default_name(const struct build *b, char ret[IMAGE_NAME_SIZE], struct error *err)
{
        return store_default_name(b->store, b->python, b->options->node, b->options->pyodide, ret,
                                  err);
}

/* From now on, the files of the host that these records name must stay as they are. Another build may write other records meanwhile. */
static int note_before(struct build *b, struct error *err)
{
        store_parts_done(&b->parts);
        store_parts_read(b->store, b->python, b->options->node, &b->parts);
        return store_parts_name(&b->parts, b->python, b->options->node, b->options->pyodide,
                                b->before, err);
}

static bool is_default(const struct build *b)
{
        return !b->options->name && !b->packages;
}

/* Space for data, and for inodes if the file system allocates them dynamically. */
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
                return error_set(
                        err, ENOSPC,
                        "image store %s: the image needs %zu files, the file system has room for %" PRIu64,
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
        _cleanup_close_ int root = image_record_make_root(directory, b->root, err);
        if (root < 0)
                return root;
        progress_stage(&b->progress, "copying %" PRIu64 " files, %" PRIu64 " MiB", b->plan->files,
                       b->plan->bytes / MIB);
        int r = copy_plan(root, b->plan, &b->progress, err);
        return r == -ENOSPC || r == -EDQUOT ? full(b, r, err) : r;
}

/* Runs a program that may fail. */
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

static void compile_below(const struct build *b, const char *path)
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

        /* A symbolic link could lead out of the image. */
        if (!realpath(path, real) && snprintf(real, sizeof(real), "%s", path) >= PATH_MAX)
                return;
        snprintf(folder, sizeof(folder), "%s%s", b->root, real);
        best_effort(argv, COMPILE_MS);
}

/* Compiles sources of the interpreter without a valid .pyc (packages have theirs): in a read-only image each import would compile them again.
 * Files that do not compile are ignored; importing them reports the error. */
static void compile(struct build *b)
{
        yyjson_val *const lists[] = {b->interpreter.standard, b->interpreter.packages};
        yyjson_val *path;
        size_t k, n;

        if (b->plan->stale > 0)
                progress_stage(&b->progress, "compiling %" PRIu64 " module%s", b->plan->stale,
                               plural(b->plan->stale));
        for (size_t i = 0; b->plan->stale > 0 && i < ARRAY_SIZE(lists); i++)
                yyjson_arr_foreach (lists[i], k, n, path)
                        compile_below(b, yyjson_get_str(path));
}

/* The loader finds libraries outside its default directories through its cache. */
static void write_cache(struct build *b)
{
        const char *const argv[] = {"/sbin/ldconfig", "-X", "-r", b->root, NULL};

        if (access(argv[0], X_OK) == 0)
                best_effort(argv, CACHE_MS);
}

/* Writes the interpreter's own packages: the names of their metadata directories contain name and
 * version. */
static void list_own(const struct build *b, struct json_out *out)
{
        for (size_t i = 0; i < b->plan->n; i++) {
                const struct plan_entry *entry = &b->plan->entries[i];
                const char *name = strrchr(entry->path, '/') + 1, *dash = strchr(name, '-');
                size_t n = strlen(name), end = strlen(".dist-info");
                if (entry->kind != PLAN_DIRECTORY || !dash || n <= end ||
                    strcmp(name + n - end, ".dist-info") != 0)
                        continue;
                json_out_begin(out, NULL, '{');
                json_out_string(out, "name", name, (size_t)(dash - name));
                json_out_string(out, "version", dash + 1, n - end - (size_t)(dash + 1 - name));
                json_out_end(out, '}');
        }
}

static int list_packages(struct build *b)
{
        struct json_out out = {.to = &b->list};

        json_out_begin(&out, NULL, '[');
        if (b->packages)
                packages_list(b->packages, &out);
        list_own(b, &out);
        json_out_end(&out, ']');
        return out.error < 0 ? out.error : buffer_append(&b->list, "", 1);
}

/* Checks that all paths can be stored, before anything is written. */
static int describe(struct build *b, struct error *err)
{
        const struct interpreter *in = &b->interpreter;
        struct image_info again;

        image_record_take(&b->info, in, b->python);
        b->info.bytes = b->plan->bytes + b->layer_bytes;
        b->info.files = b->plan->files + b->layer_files;
        snprintf(b->info.base, sizeof(b->info.base), "%s", b->before);
        snprintf(b->info.node, sizeof(b->info.node), "%s",
                 b->options->node ? b->options->node : "");
        snprintf(b->info.pyodide, sizeof(b->info.pyodide), "%s",
                 b->options->pyodide ? b->options->pyodide : "");
        int r = list_packages(b);
        if (r < 0)
                return error_errno(err, -r, "list of packages");
        b->info.packages = buffer_bytes(&b->list);
        if (!image_record_storable(&b->info, b->python, &again, err) ||
            strcmp(again.source, b->python) != 0 || strcmp(again.node, b->info.node) != 0 ||
            strcmp(again.pyodide, b->info.pyodide) != 0 ||
            strcmp(again.python, in->executable) != 0 ||
            strcmp(again.libpython, in->libpython) != 0)
                return error_set(
                        err, EINVAL,
                        "%s: its path is too long or is not plain UTF-8: move it elsewhere",
                        b->python);
        return 0;
}

/* An upgrade during the build would mix two versions in one image. */
static int check_unchanged(const struct build *b, struct error *err)
{
        char after[IMAGE_NAME_SIZE];

        int r = image_default_name(b->python, NULL, store_stamp, after, err);
        bool same = r >= 0 && strcmp(b->begun, after) == 0;
        if (same && (r = store_parts_name(&b->parts, b->python, b->options->node,
                                          b->options->pyodide, after, err)) >= 0)
                same = strcmp(b->before, after) == 0;
        if (r >= 0 && !same)
                return error_set(err, EAGAIN, "%s changed while it was copied: try again",
                                 b->python);
        return r;
}

/* Returns 1 if the image exists and was built from this interpreter. */
static int find(struct build *b, struct error *err)
{
        struct image_info info;

        int r = store_find(b->store, b->info.name, &info, err);
        if (r <= 0)
                return r;
        if (strcmp(info.source, b->python) != 0)
                return image_record_taken(b->info.name, err, ", made from ", info.source);
        if (strcmp(info.node, b->options->node ? b->options->node : "") != 0)
                return image_record_taken(b->info.name, err,
                                          *info.node ? ", with Node " : ", without Node",
                                          info.node);
        if (strcmp(info.pyodide, b->options->pyodide ? b->options->pyodide : "") != 0)
                return image_record_taken(b->info.name, err,
                                          *info.pyodide ? ", with Pyodide " : ", without Pyodide",
                                          info.pyodide);
        if (b->options->link != INTERPRETER_LINK_ANY && (int)info.link != b->options->link)
                return image_record_taken(b->info.name, err, ", made with --link ",
                                          image_link_name(info.link));
        if (b->packages && strcmp(info.set, b->info.set) != 0)
                return image_record_taken(b->info.name, err, ", with other packages", "");
        b->info = info;
        return 1;
}

/* ---- packages, from beside the root into it ---- */

static int move(int from, int to, int depth);

/* Moves by rename; directories that both have are merged. */
static int move_entry(int from, int to, const char *name, int depth)
{
        if (renameat(from, name, to, name) == 0)
                return 0;
        if ((errno != ENOTEMPTY && errno != EEXIST) || depth == DEPTH_MAX)
                return -errno;
        _cleanup_close_ int below = openat(from, name, DIRECTORY);
        _cleanup_close_ int there = below < 0 ? -1 : openat(to, name, DIRECTORY);
        if (there < 0)
                return -errno;
        return move(below, there, depth + 1);
}

static int move(int from, int to, int depth)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(from, ".");
        int r = 0;

        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = move_entry(from, to, d->d_name, depth);
        return r;
}

/* The directory /usr/local/NAME of the root, or with inner /usr/local/NAME/INNER. Makes what is missing. */
static int open_local(int root, const char *name, const char *inner)
{
        const char *const names[] = {"local", name, inner};
        int dir = process_open_inside(root, "/usr", O_RDONLY | O_DIRECTORY);

        for (size_t i = 0; i < ARRAY_SIZE(names) && names[i] && dir >= 0; i++) {
                _cleanup_close_ int above = dir;
                int r = mkdirat(above, names[i], 0755) < 0 && errno != EEXIST ? -errno : 0;
                dir = r < 0 ? r : openat(above, names[i], DIRECTORY);
                if (r >= 0 && dir < 0)
                        dir = -errno;
        }
        return dir;
}

/* Moves bin/ of the packages to a directory of PATH. */
static int move_programs(int packages, int root)
{
        _cleanup_close_ int bin = openat(packages, "bin", DIRECTORY);
        if (bin < 0)
                return errno == ENOENT ? 0 : -errno;
        _cleanup_close_ int to = open_local(root, "bin", NULL);
        int r = to < 0 ? to : move(bin, to, 0);
        return r < 0 ? r : unlinkat(packages, "bin", AT_REMOVEDIR) < 0 ? -errno : 0;
}

/* directory: STORE/.tmp-NAME with npm/node_modules/ and root/. */
static int merge_npm(int directory, struct error *err)
{
        _cleanup_close_ int from = openat(directory, "npm/node_modules", DIRECTORY);
        _cleanup_close_ int root = openat(directory, "root", DIRECTORY);
        if (from < 0 || root < 0)
                return error_errno(err, errno, "packages of npm");
        _cleanup_close_ int to = open_local(root, "lib", "node_modules");
        int r = to < 0 ? to : move(from, to, 0);
        if (r < 0)
                return error_errno(err, -r, "move packages of npm");
        store_clear(directory, "npm");
        return 0;
}

/* directory: STORE/.tmp-NAME with packages/ and root/. place: the existing site-packages inside the
 * root. Programs go to /usr/local/bin. */
static int merge_packages(int directory, const char *place, struct error *err)
{
        _cleanup_close_ int packages = openat(directory, "packages", DIRECTORY);
        _cleanup_close_ int root = openat(directory, "root", DIRECTORY);

        if (packages < 0 || root < 0)
                return error_errno(err, errno, "packages");
        _cleanup_close_ int to = process_open_inside(root, place, O_RDONLY | O_DIRECTORY);
        int r = to < 0 ? to : move_programs(packages, root);
        if (r >= 0)
                r = move(packages, to, 0);
        if (r < 0)
                return error_errno(err, -r, "move packages to %s", place);
        /* Only empty directories are left. */
        return 0;
}

/* ---- the build ---- */

/* Fills the empty directory and renames it. */
static int fill(struct build *b, int directory, struct error *err)
{
        int r = copy(b, directory, err);
        if (r < 0)
                return r;
        /* Before the packages exist: these programs run with the user's rights. */
        compile(b);
        write_cache(b);
        if (b->packages) {
                r = merge_packages(directory, b->interpreter.place, err);
                if (r < 0)
                        return r;
                if (unlinkat(directory, "packages", AT_REMOVEDIR) < 0)
                        store_clear(directory, "packages");
                if (packages_have_npm(b->packages) && (r = merge_npm(directory, err)) < 0)
                        return r;
        }
        if ((r = check_unchanged(b, err)) < 0)
                return r;
        progress_stage(&b->progress, "writing to disk");
        r = store_commit(b->store, b->slot, &b->info, err);
        return r == -ENOSPC || r == -EDQUOT ? full(b, r, err) : r;
}

/* Unpacks packages beside the root, so that the plan can consider what they replace and need. */
static int unpack(struct build *b, int directory, struct error *err)
{
        if (mkdirat(directory, "packages", 0755) < 0)
                return error_errno(err, errno, "make %s", b->place);
        int r = packages_unpack(b->packages, b->place, b->npm_place, &b->progress, &b->layer_bytes,
                                &b->layer_files, err);
        if (r < 0)
                return r;
        b->layer.directory = b->place;
        b->layer.libraries = packages_libraries(b->packages);
        return packages_replaced(b->packages, b->place, &b->layer.replaced, err);
}

/* The list of packages, for the guest's hints about missing packages. */
static int plan_asked_for(struct build *b, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4096);
        const struct package_set *set = b->options->set;

        for (size_t i = 0; i < set->n_with; i++)
                if (buffer_printf(&text, "%s%s", i > 0 ? "," : "", set->with[i]) < 0)
                        return 0;
        if (text.length == 0 || set->n_files > 0 || buffer_append(&text, "", 1) < 0)
                return 0;
        return plan_text(b->plan, "/etc/cloister/with", buffer_bytes(&text), false, err);
}

/* Returns 1 if the image turns out to exist. */
static int plan_and_fill(struct build *b, int directory, struct error *err)
{
        int r = b->packages ? unpack(b, directory, err) : 0;

        if (r < 0 || (r = contents_plan(b->plan, &b->interpreter, &b->layer, err)) < 0)
                return r;
        if (b->packages && (r = plan_asked_for(b, err)) < 0)
                return r;
        if (!b->packages &&
            (r = store_write_parts(b->store, b->options->node ? b->options->node : b->python,
                                   b->plan, err)) < 0)
                return r;
        if ((r = note_before(b, err)) < 0)
                return r;
        if (is_default(b)) {
                memcpy(b->info.name, b->before, sizeof(b->before));
                if ((r = find(b, err)) != 0)
                        return r;
        }
        if ((r = describe(b, err)) < 0 || (r = check_space(b, err)) < 0)
                return r;
        return fill(b, directory, err);
}

/* The name of an image with packages includes that of the default image, for which the parts must
 * be known. */
static int know_parts(struct build *b, const char *program, const struct node *node,
                      struct error *err)
{
        const struct contents_layer layer = {.node = node};
        _cleanup_plan_ struct plan *plan = NULL;

        if (store_knows_parts(b->store, program))
                return 0;
        plan = plan_new();
        if (!plan)
                return error_errno(err, ENOMEM, "image");
        int r = contents_plan(plan, &b->interpreter, &layer, err);
        return r < 0 ? r : store_write_parts(b->store, program, plan, err);
}

/* The image's name includes that of the one without Node: for both the parts must be known. */
static int ask_node(struct build *b, struct error *err)
{
        progress_stage(&b->progress, "inspecting %s", b->options->node);
        int r = node_ask(b->options->node, &b->node, err);
        b->node.pyodide = b->options->pyodide;
        b->layer.node = &b->node;
        if (r >= 0)
                r = know_parts(b, b->python, NULL, err);
        return r < 0 ? r : know_parts(b, b->options->node, &b->node, err);
}

static int ask_interpreter(struct build *b, struct error *err)
{
        if (b->interpreter.answer)
                return 0;
        progress_stage(&b->progress, "inspecting %s", b->python);
        int r = image_default_name(b->python, NULL, store_stamp, b->begun, err);
        if (r >= 0)
                r = interpreter_ask(b->python, b->options->link, &b->interpreter, err);
        return r < 0 || !b->options->node ? r : ask_node(b, err);
}

static int make_whole(struct build *b, struct error *err)
{
        int r = ask_interpreter(b, err);
        if (r < 0)
                return r;
        _cleanup_close_ int directory = store_begin(b->store, b->slot, err);
        if (directory < 0)
                return directory;
        r = plan_and_fill(b, directory, err);
        if (r != 0)
                store_abandon(b->store, b->slot);
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
                "cloister: image %s: Python %s, %s%s%s%" PRIu64 " files, %" PRIu64
                " MiB, in %.1f s\n",
                b->info.name, b->info.version, *b->info.node ? "Node " : "", b->node.version,
                *b->info.node ? ", " : "", b->info.files, b->info.bytes / MIB,
                progress_seconds(&b->progress));
        if (b->plan->left_out > 0)
                fprintf(stderr,
                        "cloister: left out: %" PRIu64
                        " files that can't be read, or links that lead elsewhere\n",
                        b->plan->left_out);
        image_record_print_private(&b->plan->private,
                                   "an image store that only you can enter takes them");
        yyjson_arr_foreach (b->interpreter.others, i, n, path)
                fprintf(stderr,
                        "cloister: left out: %s, which is in sys.path but not in site-packages (an editable install?)\n",
                        yyjson_get_str(path));
}

static int build_locked(struct build *b, struct error *err)
{
        int r = find(b, err);

        if (r != 0)
                return r < 0 ? r : 0;
        _cleanup_close_ int lock = store_lock(b->store, b->slot, false, err);
        if (lock == -EWOULDBLOCK) {
                progress_stage(&b->progress, "waiting for another process that builds it");
                lock = store_lock(b->store, b->slot, true, err);
        }
        if (lock < 0)
                return lock;
        /* Another builder may have finished it meanwhile. */
        if (is_default(b))
                r = default_name(b, b->info.name, err);
        if (r < 0 || (r = find(b, err)) != 0)
                return r < 0 ? r : 0;
        store_sweep(b->store);
        r = make_whole(b, err);
        if (r != 0)
                return r < 0 ? r : 0;
        report(b);
        return 1;
}

/* Resolves the packages. The image's name is a hash of them and of the default image's name. */
static int resolve(struct build *b, struct error *err)
{
        int r = ask_interpreter(b, err);
        if (r < 0 || (r = know_parts(b, b->python, NULL, err)) < 0 ||
            (r = libraries_loader(b->interpreter.real, &b->loader, err)) < 0)
                return r;
        struct packages_target target = {.host = b->interpreter.executable,
                                         .python = b->interpreter.executable,
                                         .version = b->interpreter.version,
                                         .place = b->interpreter.place,
                                         .loader = b->loader};
        r = packages_resolve(b->options->set, &target, b->options->store, &b->progress,
                             &b->packages, err);
        if (r < 0 || (r = note_before(b, err)) < 0)
                return r;
        uint64_t key = packages_key(b->packages);
        snprintf(b->info.set, sizeof(b->info.set), "%016" PRIx64, key);
        key = image_hash(key, b->before, strlen(b->before));
        if (!b->options->name)
                snprintf(b->info.name, sizeof(b->info.name), "packages-%012" PRIx64, key >> 16);
        return 0;
}

static int choose_name(struct build *b, struct error *err)
{
        char key[IMAGE_KEY_SIZE];

        if (b->options->name && !image_name_valid(b->options->name))
                return error_set(
                        err, EINVAL,
                        "\"%s\" is not a valid image name: letters, digits, _ . and -, 64 at most",
                        b->options->name);
        if (b->options->name)
                snprintf(b->info.name, sizeof(b->info.name), "%s", b->options->name);
        if (b->options->set && b->options->set->n_npm > 0 && !b->options->node)
                return error_set(err, EINVAL,
                                 "packages of npm need a Node in the image: --node PATH");
        if (b->options->set && !package_set_empty(b->options->set)) {
                if (!b->options->name)
                        snprintf(b->info.name, sizeof(b->info.name), "of packages");
                int r = resolve(b, err);
                if (r < 0)
                        return r;
        } else if (!b->options->name) {
                int r = default_name(b, b->info.name, err);
                image_parts_key(b->options->node ? b->options->node : b->python, key);
                snprintf(b->slot, sizeof(b->slot), "%s-%s", b->options->node ? "node" : "default",
                         key);
                return r;
        }
        memcpy(b->slot, b->info.name, sizeof(b->slot));
        return 0;
}

/* Notes the image's name for this request, so that the same request needs no index next time. */
static int note_set(const struct build *b, struct error *err)
{
        char key[IMAGE_KEY_SIZE];

        if (!b->packages || (b->options->set->n_files > 0 && !b->options->set->files_key))
                return 0;
        snprintf(key, sizeof(key), "%016" PRIx64, package_set_key(b->options->set, b->before));
        return store_write_note(b->store, "set", key, b->info.name, err);
}

static int build(struct build *b, struct error *err)
{
        int r = choose_name(b, err);
        if (r < 0)
                return r;
        if (snprintf(b->root, sizeof(b->root), "%s/.tmp-%s/root", b->options->store, b->slot) >=
                    (int)sizeof(b->root) ||
            snprintf(b->place, sizeof(b->place), "%s/.tmp-%s/packages", b->options->store,
                     b->slot) >= (int)sizeof(b->place) ||
            snprintf(b->npm_place, sizeof(b->npm_place), "%s/.tmp-%s/npm", b->options->store,
                     b->slot) >= (int)sizeof(b->npm_place))
                return error_errno(err, ENAMETOOLONG, "image store %s", b->options->store);
        r = build_locked(b, err);
        if (r >= 0 && note_set(b, err) < 0)
                return -EIO;
        if (r > 0 && is_default(b))
                housekeeping_remove_older(b->store, &b->info);
        return r;
}

int image_build(const struct image_build_options *options, struct image_info *ret,
                struct error *err)
{
        _cleanup_plan_ struct plan *plan = plan_new();
        struct build b = {
                .options = options,
                .python = options->python ? options->python : IMAGE_PYTHON_DEFAULT,
                .plan = plan,
                .list = BUFFER_INIT(IMAGE_JSON_MAX / 2),
        };

        if (!plan)
                return error_errno(err, ENOMEM, "image");
        _cleanup_close_ int store = store_open(options->store, true, err);
        if (store < 0)
                return store;
        b.store = store;
        plan->readers = store_readers(options->store);
        progress_begin(&b.progress, b.info.name, options->quiet);
        mode_t mask = umask(022);
        int r = build(&b, err);
        umask(mask);
        progress_clear(&b.progress);
        b.info.packages = NULL;
        if (r >= 0 && ret)
                *ret = b.info;
        interpreter_done(&b.interpreter);
        store_parts_done(&b.parts);
        packages_free(b.packages);
        free(b.loader);
        buffer_done(&b.list);
        return r;
}
