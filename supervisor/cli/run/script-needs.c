/*
 * PEP 723: reads the inline metadata of a script.
 *
 * A Python of the machine parses it, the one that the image would be made from (script-needs.py). Nothing
 * of the script is run.
 */
#include "supervisor/cli/run/script-needs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
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
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "supervisor/cli/command/monitor-command.h"
#include "supervisor/cli/command/process.h"
#include "supervisor/config/config-files.h"
#include "supervisor/pythons/pythons.h"

enum { FILE_MAX = 1024 * 1024, DEPTH_MAX = 8 }; /* DEPTH_MAX: as in rootfs/packages.py */

static int read_regular(const char *path, char **ret, size_t *n, struct error *err)
{
        struct stat st;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_errno(err, errno, "--requirements %s", path);
        if (!S_ISREG(st.st_mode))
                return error_set(
                        err, EINVAL,
                        "--requirements %s is not a regular file, and it must be read more than once",
                        path);
        int r = fd_read_whole(fd, FILE_MAX, ret, n, NULL);
        if (r == -EFBIG)
                return error_set(err, EFBIG, "--requirements %s: larger than %d KiB", path,
                                 FILE_MAX >> 10);
        return r < 0 ? error_errno(err, -r, "--requirements %s", path) : 0;
}

/* The name of the file that a line includes, of *n bytes, or NULL. */
static const char *included(const char *line, size_t *n)
{
        static const char *const options[] = {"--requirement", "--constraint", "-r", "-c"};

        for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
                size_t length = strlen(options[i]);
                if (strncmp(line, options[i], length) != 0)
                        continue;
                const char *name = line + length + strspn(line + length, " \t=");
                *n = strcspn(name, "\n#");
                while (*n > 0 && strchr(" \t\r", name[*n - 1]))
                        (*n)--;
                return name;
        }
        return NULL;
}

static int add_file(const char *path, unsigned depth, uint64_t *hash, struct error *err)
{
        _cleanup_free_ char *text = NULL;
        const char *slash = strrchr(path, '/'), *name;
        size_t n = 0, length = 0;
        char below[PATH_MAX];

        int r = depth < DEPTH_MAX
                        ? read_regular(path, &text, &n, err)
                        : error_set(err, ELOOP,
                                    "--requirements %s: more than %d files that include each other",
                                    path, DEPTH_MAX);
        if (r < 0)
                return r;
        *hash = image_hash(*hash, path, strlen(path) + 1);
        *hash = image_hash(*hash, text, n);
        for (const char *line = text; line && r >= 0; line = strchr(line, '\n')) {
                line += strspn(line, " \t\r\n");
                name = included(line, &length);
                if (!name)
                        continue;
                /* The installer puts a variable's value there: such a set is always looked up. */
                if (memchr(name, '$', length)) {
                        struct timespec now;
                        clock_gettime(CLOCK_REALTIME, &now);
                        *hash = image_hash(*hash, &now, sizeof(now));
                        continue;
                }
                if (snprintf(below, sizeof(below), "%.*s%.*s",
                             *name == '/' || !slash ? 0 : (int)(slash - path) + 1, path,
                             (int)length, name) >= (int)sizeof(below))
                        return error_errno(err, ENAMETOOLONG, "--requirements %s", path);
                r = add_file(below, depth + 1, hash, err);
        }
        return r;
}

int requirements_key(const struct package_set *set, char key[REQUIREMENTS_KEY_SIZE],
                     struct error *err)
{
        uint64_t hash = IMAGE_HASH_START;
        int r = 0;

        key[0] = '\0';
        for (size_t i = 0; i < set->n_files && r >= 0; i++) {
                _cleanup_free_ char *path = realpath(set->files[i], NULL);
                r = path ? add_file(path, 0, &hash, err)
                         : error_errno(err, errno, "--requirements %s", set->files[i]);
        }
        if (r >= 0 && set->n_files > 0)
                snprintf(key, REQUIREMENTS_KEY_SIZE, "%016" PRIx64, hash);
        return r;
}

enum {
        PACKAGES_MAX = 64 * 1024,
        PROGRAM_MAX = 120 * 1024
}; /* the kernel's MAX_ARG_STRLEN is 128 KiB */

static const unsigned char program[] = {
#include "supervisor/cli/run/script-needs.inc"
};

/* A line that begins a block. */
static bool has_block(const char *text, size_t n)
{
        static const char mark[] = "# /// script";
        const char *end = text + n, *at = text;

        while (at && (at = memmem(at, (size_t)(end - at), mark, sizeof(mark) - 1))) {
                if (at == text || at[-1] == '\n')
                        return true;
                at++;
        }
        return false;
}

/* The monitor reads the files again, which it cannot of a pipe. */
static bool can_read_twice(const struct options *o)
{
        struct stat st;

        for (size_t i = 0; i < o->n_configs; i++)
                if (stat(o->configs[i], &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
                        return false;
        return true;
}

/* Reads the image and interpreter of the profile. The monitor, which reads the config next, reports its errors. */
static void read_profile(const struct options *o, bool *has_image, char **python)
{
        struct config *config = config_new();
        struct config_files *files = NULL;
        struct error ignored = {};

        if (config && can_read_twice(o) &&
            config_files_open(o->configs, o->n_configs, geteuid() == 0, NULL, config, &files,
                              &ignored) >= 0 &&
            config_finish(config, &ignored) >= 0) {
                int i = o->profile ? config_find_profile(config, o->profile, &ignored)
                                   : (int)config->profile;
                const struct config_profile *profile = i < 0 ? NULL : &config->profiles[i];
                *has_image = profile && profile->image;
                *python = profile && profile->python ? strdup(profile->python) : NULL;
        }
        config_files_free(files);
        config_free(config);
}

/* Replaces a version by an interpreter. Without one, the usual interpreter reads the metadata, and *version stays: it is downloaded,
 * or an image has it. */
static int find_version(char **python, char **version, struct error *err)
{
        struct python_version wanted;
        char path[PYTHON_PATH_SIZE];

        if (!*python || !python_version_is_meant(*python))
                return 0;
        int r = python_version_parse(*python, &wanted, err);
        if (r < 0)
                return r;
        *version = take_ptr(*python);
        if (!pythons_find(&wanted, NULL, path))
                return 0;
        free(take_ptr(*version));
        *python = strdup(path);
        return *python ? 0 : error_errno(err, ENOMEM, "--python");
}

/* The lines before the program, and the program. */
static char *write_program(const char *own, const struct pythons *found)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(PROGRAM_MAX);
        struct json_out out = {.to = &b};
        char version[32];
        int r = buffer_append_text(&b, "OWN = ");

        if (r >= 0)
                r = own ? json_append_string(&b, own, strlen(own)) : buffer_append_text(&b, "None");
        if (r >= 0)
                r = buffer_append_text(&b, found ? "\nFOUND = " : "\nFOUND = None");
        if (found)
                json_out_begin(&out, NULL, '[');
        for (size_t i = 0; found && i < found->n; i++) {
                snprintf(version, sizeof(version), "3.%d.%d", found->items[i].version.minor,
                         found->items[i].version.patch);
                json_out_begin(&out, NULL, '[');
                json_out_text(&out, NULL, version);
                json_out_text(&out, NULL, found->items[i].path);
                json_out_end(&out, ']');
        }
        if (found)
                json_out_end(&out, ']');
        if (r >= 0)
                r = out.error < 0 ? out.error : buffer_append_text(&b, "\n");
        if (r >= 0)
                r = buffer_append_text(&b, (const char *)program);
        return r < 0 ? NULL : strndup(buffer_bytes(&b), b.length);
}

static int ask(const char *python, const char *own, const struct pythons *found, const char *name,
               int fd, yyjson_doc **ret, struct error *err)
{
        _cleanup_free_ char *whole = write_program(own, found);
        const char *const pythons[] = {python, "python3", NULL};
        _cleanup_free_ char *text = NULL;
        char path[32];
        size_t n = 0;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (!whole)
                return error_errno(err, ENOMEM, "%s", name);
        int r = python_program_run(pythons, whole, path, &text, &n, err);
        if (r == PYTHON_WRONG)
                return error_set(err, EINVAL, "%s %.*s", name, (int)strcspn(text ? text : "", "\n"),
                                 text ? text : "");
        if (r > 0)
                return error_set(err, ENOENT,
                                 "%s: its inline metadata can't be read without a python3", name);
        return r < 0 ? r : json_parse(text, n, ret, err);
}

static int join(yyjson_val *list, const char *name, char **ret, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(PACKAGES_MAX);
        size_t i, n;
        yyjson_val *item;
        int r = 0;

        yyjson_arr_foreach (list, i, n, item) {
                const char *text = yyjson_get_str(item);
                r = package_check(text, err);
                if (r < 0)
                        return error_context(err, "%s: dependencies", name);
                if (i > 0)
                        r = buffer_append_text(&b, ",");
                if (r >= 0)
                        r = buffer_append_text(&b, text);
                if (r < 0)
                        return error_set(err, -r, "%s: more than %d KiB of dependencies", name,
                                         PACKAGES_MAX >> 10);
        }
        if (n > 0 && !(*ret = strndup(buffer_bytes(&b), b.length)))
                return error_errno(err, ENOMEM, "%s", name);
        return 0;
}

static int add(const char *name, yyjson_val *found, struct options *o, struct script_needs *needs,
               struct error *err)
{
        const char *python = json_string(found, "python", NULL);

        int r = join(yyjson_obj_get(found, "dependencies"), name, &needs->packages, err);
        if (r < 0)
                return r;
        if (python && o->python)
                return error_set(
                        err, EINVAL,
                        "%s needs another Python than --python %s; without the option, %s is used",
                        name, o->python, python);
        if (python && !(needs->python = strdup(python)))
                return error_errno(err, ENOMEM, "%s", name);
        if (needs->python)
                o->python = needs->python;
        if (needs->packages && o->set.n_with == PACKAGE_WITH_MAX)
                return error_set(err, E2BIG, "%s: with its dependencies more than %d --with", name,
                                 PACKAGE_WITH_MAX);
        if (needs->packages)
                o->set.with[o->set.n_with++] = needs->packages;
        return 0;
}

int script_needs_add(const char *name, const char *text, size_t n, int fd, struct options *o,
                     struct script_needs *needs, struct error *err)
{
        _cleanup_free_ char *of_profile = NULL, *given = NULL, *version = NULL;
        _cleanup_free_ struct pythons *found_pythons = NULL;
        _cleanup_json_ yyjson_doc *found = NULL;
        bool has_image = o->image;

        *needs = (struct script_needs){};
        if (!has_block(text, n))
                return 0;
        if (!has_image)
                read_profile(o, &has_image, &of_profile);
        if (has_image)
                return 0;
        int r = o->python ? monitor_command_python(o->python, &given, err) : 0;
        if (r >= 0)
                r = find_version(given ? &given : &of_profile, &version, err);
        const char *python = given ? given : of_profile ? of_profile : IMAGE_PYTHON_DEFAULT;
        if (r >= 0)
                r = ask(python, version, NULL, name, fd, &found, err);
        if (r >= 0 && yyjson_obj_get(yyjson_doc_get_root(found), "search")) {
                yyjson_doc_free(take_ptr(found));
                found_pythons = calloc(1, sizeof(*found_pythons));
                if (!found_pythons)
                        return error_errno(err, ENOMEM, "%s", name);
                pythons_list(NULL, found_pythons);
                r = ask(python, version, found_pythons, name, fd, &found, err);
        }
        return r < 0 ? r : add(name, yyjson_doc_get_root(found), o, needs, err);
}

void script_needs_done(struct script_needs *needs)
{
        free(needs->packages);
        free(needs->python);
}
