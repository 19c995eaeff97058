/* `cloister image`, and the builder that the monitor starts. */
#include "supervisor/cli/images/images.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/path.h"
#include "base/places.h"
#include "base/plural.h"
#include "policy/image.h"
#include "rootfs/image-build.h"
#include "rootfs/image-import.h"
#include "rootfs/packages.h"
#include "rootfs/store.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/pythons/uv.h"

enum { MIB = 1024 * 1024 };

/* The image store of this user. */
static int store_path(const struct options *o, char ret[PATH_MAX], struct error *err)
{
        char state[PATH_MAX];
        struct image_store_env env = {
                .store = getenv("CLOISTER_IMAGE_STORE"),
                .state = place_service_state(state, sizeof(state)) ? state : NULL,
                .data_home = getenv("XDG_DATA_HOME"),
                .home = path_home(),
        };

        if (o->store)
                return realpath(o->store, ret) ? 0
                                               : error_errno(err, errno, "--store %s", o->store);
        return image_store_path(geteuid(), &env, ret, PATH_MAX, err);
}

int images_open(const struct options *o, char path[PATH_MAX], struct error *err)
{
        int r = store_path(o, path, err);
        return r < 0 ? r : store_open(path, false, err);
}

/* Before the store is changed: where root runs the command and the store is another user's, becomes
 * that user permanently, so that it contains no file of root's. */
static int images_become_owner(int store, struct error *err)
{
        struct stat st;

        if (fstat(store, &st) < 0)
                return error_errno(err, errno, "image store");
        if (geteuid() != 0 || st.st_uid == 0)
                return 0;
        if (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
            setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)
                return error_errno(err, errno, "the image store's owner: become uid %u", st.st_uid);
        return 0;
}

/* When a sandbox was last created from an image: the access time of image.json. */
static void used(int store, const char *name, char *ret, size_t size)
{
        char path[IMAGE_NAME_SIZE + 16];
        struct stat st;
        struct tm t;

        snprintf(path, sizeof(path), "%s/image.json", name);
        *ret = '\0';
        if (fstatat(store, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
                strftime(ret, size, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&st.st_atim.tv_sec, &t));
}

/* One image, with its use and whether it is stale. */
static void append_image(struct json_out *out, int store, const char *path,
                         const struct image_info *image)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * MIB);
        _cleanup_json_ yyjson_doc *doc = NULL;
        char when[32], place[PATH_MAX + IMAGE_NAME_SIZE];
        yyjson_val *key, *value;
        size_t i, n;

        int r = image_info_append(&b, image);
        if (r >= 0)
                r = json_parse(buffer_bytes(&b), b.length, &doc, NULL);
        if (r < 0)
                json_out_fail(out, r);
        used(store, image->name, when, sizeof(when));
        snprintf(place, sizeof(place), "%s/%s", path, image->name);
        json_out_begin(out, NULL, '{');
        json_out_text(out, "path", place);
        json_out_text(out, "used", when);
        json_out_bool(out, "stale", housekeeping_is_stale(store, image));
        json_out_int(out, "packages_total", (int64_t)image->n_packages);
        yyjson_obj_foreach (yyjson_doc_get_root(doc), i, n, key, value) {
                json_out_key(out, yyjson_get_str(key), yyjson_get_len(key));
                json_out_value(out, NULL, value);
        }
        json_out_end(out, '}');
}

static int print_json(int store, const struct image_info *images, int n, const char *path)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * MIB);
        struct json_out out = {.to = &b, .indent = true};

        json_out_begin(&out, NULL, '[');
        for (int i = 0; i < n; i++)
                append_image(&out, store, path, &images[i]);
        json_out_end(&out, ']');
        return cli_print_json(&out, "list images");
}

static void print_table(int store, const struct image_info *images, int n)
{
        int width = 4;

        for (int i = 0; i < n; i++)
                if ((int)strlen(images[i].name) > width)
                        width = (int)strlen(images[i].name);
        printf("%-*s  %-8s %6s %8s  %-20s  %-20s  %s\n", width, "NAME", "PYTHON", "MIB", "PACKAGES",
               "CREATED", "USED", "MADE FROM");
        for (int i = 0; i < n; i++) {
                char when[32];
                used(store, images[i].name, when, sizeof(when));
                printf("%-*s  %-8s %6" PRIu64 " %8" PRIu64 "  %-20s  %-20s  %s%s\n", width,
                       images[i].name, images[i].version, images[i].bytes / MIB,
                       images[i].n_packages, images[i].created, when, images[i].source,
                       housekeeping_is_stale(store, &images[i]) ? " (stale)" : "");
        }
}

int cli_image_list(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_free_ struct image_info *images = NULL;
        struct error error = {};
        char path[PATH_MAX];

        _cleanup_close_ int store = images_open(o, path, &error);
        int count = store < 0 ? 0 : store_list(store, &images, &error);
        if (count < 0 || (store < 0 && store != -ENOENT))
                return cli_fail(1, &error);
        if (o->json)
                return print_json(store, images, count, path);
        if (count == 0)
                fprintf(stderr,
                        "No images in %s yet: 'cloister image build' makes one, and so does the first use.\n",
                        path);
        else
                print_table(store, images, count);
        return 0;
}

/* The complete image.json, checked. */
static int read_whole(int store, const char *name, struct image_info *info, yyjson_doc **ret,
                      struct error *err)
{
        char path[IMAGE_NAME_SIZE + 16];
        _cleanup_free_ char *data = NULL;
        size_t n = 0;

        int r = image_name_valid(name) ? store_find(store, name, info, err) : 0;
        if (r == 0)
                return error_set(err, ENOENT, "there is no image '%s' (see 'cloister image list')",
                                 name);
        snprintf(path, sizeof(path), "%s/image.json", name);
        _cleanup_close_ int fd = r < 0 ? -1
                                       : openat(store, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (r >= 0 && (r = fd_read_whole(fd, IMAGE_JSON_MAX, &data, &n, err)) >= 0)
                r = json_parse(data, n, ret, err);
        return r;
}

static void print_packages(yyjson_val *packages)
{
        yyjson_val *package;
        size_t i, n;

        yyjson_arr_foreach (packages, i, n, package) {
                const char *hash = json_string(package, "sha256", NULL);
                printf("  %-24s %-14s %s%s\n", json_string(package, "name", NULL),
                       json_string(package, "version", NULL), hash ? "sha256:" : "",
                       hash && strspn(hash, "0123456789abcdef") == strlen(hash) ? hash : "");
        }
}

static int show_json(int store, const char *path, struct image_info *info, yyjson_doc *doc)
{
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(64 * MIB), b = BUFFER_INIT(64 * MIB);
        struct json_out out = {.to = &b, .indent = true};
        yyjson_val *packages = yyjson_obj_get(yyjson_doc_get_root(doc), "packages");

        int r = packages ? json_append(&list, packages) : buffer_append(&list, "[]", 2);
        if (r >= 0)
                r = buffer_append(&list, "", 1);
        if (r < 0)
                json_out_fail(&out, r);
        info->packages = buffer_bytes(&list);
        append_image(&out, store, path, info);
        return cli_print_json(&out, "show image");
}

int cli_image_show(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct image_info info = {};
        struct error error = {};
        char path[PATH_MAX], when[32];

        if (n == 0)
                return cli_fail_text(2, "image show needs the NAME of an image");
        _cleanup_close_ int store = images_open(o, path, &error);
        if (store < 0 || read_whole(store, words[0], &info, &doc, &error) < 0)
                return cli_fail(1, &error);
        snprintf(info.name, sizeof(info.name), "%s", words[0]);
        if (o->json)
                return show_json(store, path, &info, doc);
        used(store, info.name, when, sizeof(when));
        printf("%s: Python %s of %s%s%s, %" PRIu64 " files, %" PRIu64 " MiB\n"
               "created %s, used last %s%s\n%s/%s\n%" PRIu64 " package%s\n",
               info.name, info.version, info.source, *info.node ? ", with Node of " : "", info.node,
               info.files, info.bytes / MIB, info.created, when,
               housekeeping_is_stale(store, &info) ? ", stale" : "", path, info.name,
               info.n_packages, plural(info.n_packages));
        print_packages(yyjson_obj_get(yyjson_doc_get_root(doc), "packages"));
        return 0;
}

int cli_image_names(void)
{
        static const struct options none = {};
        _cleanup_free_ struct image_info *images = NULL;
        struct error error = {};
        char path[PATH_MAX];

        _cleanup_close_ int store = images_open(&none, path, &error);
        int count = store < 0 ? 0 : store_list(store, &images, &error);
        for (int i = 0; i < count; i++)
                puts(images[i].name);
        return count < 0 || (store < 0 && store != -ENOENT) ? 1 : 0;
}

int cli_image_path(const struct options *o, const char *const *words, size_t n)
{
        struct image_info info;
        struct error error = {};
        char path[PATH_MAX];

        if (store_path(o, path, &error) < 0)
                return cli_fail(1, &error);
        if (n == 0) {
                puts(path);
                return 0;
        }
        if (!image_name_valid(words[0]))
                return cli_fail_text(2, "'%s' is not a valid image name", words[0]);
        _cleanup_close_ int store = store_open(path, false, &error);
        if (store < 0)
                return cli_fail(1, &error);
        int r = store_find(store, words[0], &info, &error);
        if (r == 0)
                error_set(&error, ENOENT, "there is no image '%s' (see 'cloister image list')",
                          words[0]);
        if (r <= 0)
                return cli_fail(1, &error);
        printf("%s/%s\n", path, words[0]);
        return 0;
}

/* ---- the commands that change images ---- */

int cli_image_build(const struct options *o, const char *const *words, size_t n)
{
        struct monitor_command command;
        struct options own = *o;
        struct error error = {};

        const char *option = o->rootfs ? "--rootfs" : "--oci";

        if (o->node && (o->rootfs || o->oci))
                return cli_fail_text(
                        2, "%s and --node do not go together: install Node before the import",
                        option);
        if (o->pyodide && !o->node)
                return cli_fail_text(2, "--pyodide goes with --node");
        if (o->rootfs && o->oci)
                return cli_fail_text(2, "--rootfs and --oci do not go together: name one of them");
        if ((o->rootfs || o->oci) && !o->name)
                return cli_fail_text(2, "%s needs --name: what the image is to be called", option);
        if ((o->rootfs || o->oci) && !package_set_empty(&o->set))
                return cli_fail_text(
                        2, "%s and packages do not go together: install them before the import",
                        option);
        if (o->with_private && !o->rootfs && !o->oci)
                return cli_fail_text(2, "--private goes with --rootfs or --oci");
        if (o->python_from && !o->oci)
                return cli_fail_text(2, "--python-from goes with --oci");
        if (o->python_from && (o->python || o->link))
                return cli_fail_text(2, "--python-from and %s do not go together",
                                     o->python ? "--python" : "--link");
        if (o->set.n_npm > 0 && !o->node)
                own.node = "node";
        if (monitor_command_init(&command, &own, &error) < 0)
                return cli_fail(1, &error);
        monitor_command_exec(&command, PROGRAM_MONITOR, "image-build", &error);
        monitor_command_done(&command);
        return cli_fail(1, &error);
}

static void tell_uv(void *quiet, const char *text)
{
        if (!*(const bool *)quiet)
                fprintf(stderr, "cloister: uv: %s\n", text);
}

/* The path of the interpreter, also if --python is a version. */
static int find_python(const struct options *o, bool download, char path[PYTHON_PATH_SIZE],
                       const char **ret, struct error *err)
{
        struct python_version wanted;
        bool quiet = o->quiet;

        *ret = o->python;
        if (!python_version_is_meant(o->python) || o->rootfs || o->oci)
                return 0;
        int r = python_version_parse(o->python, &wanted, err);
        if (r < 0)
                return r;
        *ret = path;
        if (pythons_find(&wanted, NULL, path))
                return 0;
        if (!download)
                return pythons_missing(o->python, NULL, err);
        return uv_install(o->python, tell_uv, &quiet, path, err);
}

int cli_image_builder(const struct options *o, const char *const *words, size_t n)
{
        char path[PYTHON_PATH_SIZE];
        struct image_build_options options = {
                .store = o->store,
                .python = o->python,
                .node = o->node,
                .pyodide = o->pyodide,
                .name = o->name,
                .rootfs = o->rootfs,
                .oci = o->oci,
                .python_from = o->python_from,
                .with_private = o->with_private,
                .link = o->link ? image_link_parse(o->link) : INTERPRETER_LINK_ANY,
                .set = &o->set,
                .quiet = o->quiet,
        };
        struct image_info info = {};
        struct error error = {};

        if (!o->store)
                return cli_fail_text(2, "image-builder needs --store");
        if (find_python(o, getenv(PYTHON_DOWNLOADS_VARIABLE), path, &options.python, &error) < 0)
                return cli_fail(1, &error);
        int r = o->rootfs || o->oci ? image_import(&options, &info, &error)
                                    : image_build(&options, &info, &error);
        if (r < 0)
                return cli_fail(1, &error);
        if (r == 0 && !options.quiet)
                fprintf(stderr, "cloister: image %s is there already: Python %s of %s\n", info.name,
                        info.version, info.source);
        return 0;
}

int cli_package_installer(const struct options *o, const char *const *words, size_t n)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(MIB);
        struct json_out out = {.to = &b};
        char path[PYTHON_PATH_SIZE];
        struct error error = {};
        const char *python;

        if (!o->python || (n == 0 && !o->store))
                error_set(&error, EINVAL, "package-installer needs --store and --python");
        else if (find_python(o, false, path, &python, &error) < 0)
                ;
        else if (n > 0)
                packages_become_builder(python, words[0], &error);
        else
                packages_become_installer(python, o->store, &error);
        /* Its reader is the broker, which tells the session. */
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "error", error.text);
        json_out_end(&out, '}');
        cli_print_json(&out, "package-installer");
        return 1;
}

int cli_image_remove(const struct options *o, const char *const *words, size_t n)
{
        struct error error = {};
        char path[PATH_MAX];
        int status = 0;

        if (n == 0)
                return cli_fail_text(2, "image remove needs the NAME of an image");
        _cleanup_close_ int store = images_open(o, path, &error);
        if (store < 0 || images_become_owner(store, &error) < 0)
                return cli_fail(1, &error);
        for (size_t i = 0; i < n; i++) {
                error = (struct error){};
                int r = image_name_valid(words[i]) ? store_remove(store, words[i], &error) : 0;
                if (r == 0)
                        error_set(&error, ENOENT,
                                  "there is no image '%s' (see 'cloister image list')", words[i]);
                if (r == -EBUSY)
                        error_set(
                                &error, EBUSY,
                                "image %s is in use, or being built: end what uses it first (see 'cloister sessions')",
                                words[i]);
                if (r <= 0)
                        status = cli_fail(1, &error);
        }
        return status;
}

static void tell(const struct image_info *info, bool busy)
{
        printf("%s %s: Python %s of %s\n", busy ? "in use, stays:" : "removed", info->name,
               info->version, info->source);
}

static void tell_nothing(const struct image_info *info, bool busy)
{
}

int cli_image_prune(const struct options *o, const char *const *words, size_t n)
{
        struct error error = {};
        char path[PATH_MAX];
        uint64_t bytes = 0;

        _cleanup_close_ int store = images_open(o, path, &error);
        if (store == -ENOENT)
                return 0;
        if (store < 0 || images_become_owner(store, &error) < 0)
                return cli_fail(1, &error);
        int removed = housekeeping_prune(store, o->quiet ? tell_nothing : tell, &bytes, &error);
        if (removed < 0)
                return cli_fail(1, &error);
        if (!o->quiet)
                printf("%d image%s and %" PRIu64 " KiB of wheels removed\n", removed,
                       plural(removed), bytes / 1024);
        return 0;
}
