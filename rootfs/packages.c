/* Third-party packages of an image. */
#include "rootfs/packages.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "policy/image.h"
#include "rootfs/installer-sandbox.h"
#include "rootfs/process.h"

enum {
        ANSWER_MAX = 4 * 1024 * 1024,
        REQUEST_MAX = 64 * 1024, /* the kernel passes 128 KiB in an argument */
        RESOLVE_MS = 30 * 60 * 1000,
        DEPTH_MAX = 64,
        REPLACED_MAX = 4096,
        LINES_MAX = 10000,
        SHOWN_MAX = 1024,
};

/* Bytes that one file of an image's packages may have, as in packages.py. */
#define FILE_MAX (UINT64_C(4) << 30)

static const char script[] = {
#include "rootfs/packages.inc"
};

struct packages {
        yyjson_doc *answer, *unpacked;
        yyjson_val *list, *npm; /* npm may be NULL */
        struct packages_target target;
        const struct package_set *set;
        const char *store;
        char **replaced; /* NULL-terminated, or NULL */
        size_t n_replaced;
};

struct packages *packages_free(struct packages *packages)
{
        if (!packages)
                return NULL;
        for (size_t i = 0; i < packages->n_replaced; i++)
                free(packages->replaced[i]);
        free(packages->replaced);
        yyjson_doc_free(packages->answer);
        yyjson_doc_free(packages->unpacked);
        free(packages);
        return NULL;
}

/* Writes the request, which stays open for more members. */
static void begin_request(struct json_out *out, const struct packages *p, const char *action)
{
        const struct {
                const char *key, *value;
        } texts[] = {{"action", action},
                     {"version", p->target.version},
                     {"python", p->target.python},
                     {"platform", p->target.platform},
                     {"installer", p->set->installer},
                     {"find_links", p->set->find_links}};
        char cache[PATH_MAX], program[32];

        snprintf(cache, sizeof(cache), "%s/.cache", p->store);
        /* Its path may be that of a newer version by now. */
        snprintf(program, sizeof(program), "/proc/%d/exe", getpid());
        json_out_begin(out, NULL, '{');
        json_out_text(out, "program", program);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                if (texts[i].value)
                        json_out_text(out, texts[i].key, texts[i].value);
        json_out_text(out, "cache", cache);
        json_out_bool(out, "offline", p->set->offline);
        json_out_bool(out, "upgrade", p->set->upgrade);
        json_out_begin(out, "with", '[');
        for (size_t i = 0; i < p->set->n_with; i++) {
                const char *list = p->set->with[i], *word = NULL;
                size_t n = 0;
                while (package_next(&list, &word, &n))
                        json_out_string(out, NULL, word, n);
        }
        json_out_end(out, ']');
        json_out_begin(out, "npm", '[');
        for (size_t i = 0; i < p->set->n_npm; i++) {
                const char *list = p->set->npm[i], *word = NULL;
                size_t n = 0;
                while (npm_next(&list, &word, &n))
                        json_out_string(out, NULL, word, n);
        }
        json_out_end(out, ']');
        json_out_begin(out, "files", '[');
        for (size_t i = 0; i < p->set->n_files; i++)
                json_out_text(out, NULL, p->set->files[i]);
        json_out_end(out, ']');
}

/* Some lines are written in the sandbox. */
static void on_line(void *data, const char *line)
{
        struct progress *progress = data;

        if (progress->lines++ < LINES_MAX)
                progress_stage(progress, "%s", line);
}

/* Ends the request and runs packages.py. *ret is its output, which has a list of packages. */
static int ask(const struct packages *p, struct json_out *request, struct progress *progress,
               yyjson_doc **ret, struct error *err)
{
        _cleanup_buffer_ struct buffer output = BUFFER_INIT(ANSWER_MAX);
        struct process process;
        int status = 0;

        json_out_end(request, '}');
        int r = request->error ? request->error : buffer_append(request->to, "", 1);
        if (r < 0)
                return error_errno(err, -r, "ask for packages");
        const char *const argv[] = {
                p->target.host, "-I", "-B", "-c", script, buffer_bytes(request->to), NULL};
        r = process_start(argv, &process, err);
        if (r >= 0)
                r = process_follow(&process, RESOLVE_MS, &output, on_line, progress, &status, err);
        if (r < 0)
                return error_context(err, "packages: %s", p->target.host);
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *line = process_last_line(&output);
        if (line)
                json_parse(line, strlen(line), &doc, NULL);
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *why = json_string(root, "error", NULL);
        if (why)
                return error_set(err, ENOENT, "packages: %s", why);
        if (status != 0 || !yyjson_is_arr(yyjson_obj_get(root, "packages")))
                return error_set(err, EIO, "packages: %s could not run the installer (status %d)",
                                 p->target.host, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        *ret = take_ptr(doc);
        return 0;
}

int packages_resolve(const struct package_set *set, const struct packages_target *target,
                     const char *store, struct progress *progress, struct packages **ret,
                     struct error *err)
{
        _cleanup_packages_ struct packages *p = calloc(1, sizeof(*p));

        if (!p)
                return error_errno(err, ENOMEM, "packages");
        *p = (struct packages){.target = *target, .set = set, .store = store};
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(REQUEST_MAX);
        struct json_out request = {.to = &text};
        begin_request(&request, p, "resolve");
        int r = ask(p, &request, progress, &p->answer, err);
        if (r < 0)
                return r;
        p->list = yyjson_obj_get(yyjson_doc_get_root(p->answer), "packages");
        p->npm = yyjson_obj_get(yyjson_doc_get_root(p->answer), "npm");
        *ret = take_ptr(p);
        return 0;
}

/* Normalizes what an installer wrote: only files and directories, modes 0644 and 0755. */
static int tidy(int parent, const char *name, int depth, uint64_t *bytes, uint64_t *files)
{
        _cleanup_close_ int fd = openat(parent, name,
                                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;
        int r = 0;

        if (fd < 0 && (errno == ELOOP || errno == ENXIO))
                return unlinkat(parent, name, 0) < 0 ? -errno : 0;
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (S_ISREG(st.st_mode) && st.st_nlink == 1) {
                *bytes += (uint64_t)st.st_size;
                (*files)++;
                return fchmod(fd, st.st_mode & 0111 ? 0755 : 0644) < 0 ? -errno : 0;
        }
        if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
                return -EINVAL;
        if (fchmod(fd, 0755) < 0)
                return -errno;
        _cleanup_closedir_ DIR *stream = fd_open_directory(fd, ".");
        if (!stream)
                return -errno;
        for (struct dirent *d; r >= 0 && (d = fd_next_entry(stream));)
                r = tidy(fd, d->d_name, depth + 1, bytes, files);
        return r;
}

bool packages_have_npm(const struct packages *packages)
{
        return yyjson_arr_size(packages->npm) > 0;
}

int packages_unpack(struct packages *packages, const char *directory, const char *npm_directory,
                    struct progress *progress, uint64_t *bytes, uint64_t *files, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(REQUEST_MAX);
        struct json_out request = {.to = &text};

        begin_request(&request, packages, "install");
        json_out_text(&request, "stage", directory);
        json_out_text(&request, "place", packages->target.place);
        json_out_text(&request, "loader", packages->target.loader);
        json_out_value(&request, "packages", packages->list);
        json_out_text(&request, "npm_stage", npm_directory);
        json_out_value(&request, "tarballs", packages->npm);
        int r = ask(packages, &request, progress, &packages->unpacked, err);
        if (r < 0)
                return r;
        r = tidy(AT_FDCWD, directory, 0, bytes, files);
        if (r >= 0 && packages_have_npm(packages))
                r = tidy(AT_FDCWD, npm_directory, 0, bytes, files);
        return r < 0 ? error_errno(err, -r, "packages: unpacked in %s", directory) : 0;
}

yyjson_val *packages_libraries(const struct packages *packages)
{
        return yyjson_obj_get(yyjson_doc_get_root(packages->unpacked), "libraries");
}

/* Members of a package; those that a wheel lacks are of npm: where it lies, and the hash that the registry names. */
static const char *const described[] = {"name", "version", "sha256", "path", "sha512"};

static uint64_t mix(uint64_t hash, yyjson_val *list)
{
        yyjson_val *package;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, package) {
                for (size_t k = 0; k < ARRAY_SIZE(described); k++) {
                        const char *value = json_string(package, described[k], NULL);
                        if (value)
                                hash = image_hash(hash, value, strlen(value) + 1);
                }
        }
        return hash;
}

uint64_t packages_key(const struct packages *packages)
{
        return mix(mix(IMAGE_HASH_START, packages->list), packages->npm);
}

static void write_list(yyjson_val *list, struct json_out *out)
{
        yyjson_val *package;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, package) {
                json_out_begin(out, NULL, '{');
                for (size_t k = 0; k < ARRAY_SIZE(described); k++) {
                        const char *value = json_string(package, described[k], NULL);
                        if (value || k < 3)
                                json_out_text(out, described[k], value ? value : "");
                }
                json_out_end(out, '}');
        }
}

void packages_list(const struct packages *packages, struct json_out *out)
{
        write_list(packages->list, out);
        write_list(packages->npm, out);
}

static int add_replaced(struct packages *p, const char *pattern)
{
        if (!p->replaced && !(p->replaced = calloc(REPLACED_MAX + 1, sizeof(char *))))
                return -ENOMEM;
        if (p->n_replaced == REPLACED_MAX)
                return -E2BIG;
        if (!(p->replaced[p->n_replaced] = strdup(pattern)))
                return -ENOMEM;
        p->n_replaced++;
        return 0;
}

/* "ruamel-yaml": "[Rr][Uu]…[-_.]…-*.dist-info". */
static int add_metadata(struct packages *p, const char *name)
{
        char pattern[1024];
        size_t n = 0;

        for (; *name && n < sizeof(pattern) - 32; name++) {
                if (isalpha((unsigned char)*name))
                        n += (size_t)sprintf(pattern + n, "[%c%c]", toupper(*name), tolower(*name));
                else
                        n += (size_t)sprintf(pattern + n, *name == '-' ? "[-_.]" : "%c", *name);
        }
        snprintf(pattern + n, sizeof(pattern) - n, "-*.dist-info");
        return add_replaced(p, pattern);
}

/* A directory without __init__.py may be shared between packages. */
static bool is_shared(const char *directory, const char *name)
{
        char path[PATH_MAX + NAME_MAX + 16];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                return false;
        snprintf(path, sizeof(path), "%s/%s/__init__.py", directory, name);
        return access(path, F_OK) < 0 && !strstr(name, ".dist-info") && !strstr(name, ".libs");
}

int packages_replaced(struct packages *p, const char *directory, const char *const **ret,
                      struct error *err)
{
        _cleanup_closedir_ DIR *stream = opendir(directory);
        yyjson_val *package;
        size_t i, n;
        int r = 0;

        if (!stream)
                return error_errno(err, errno, "%s", directory);
        for (struct dirent *d; r >= 0 && (d = readdir(stream));)
                if (d->d_name[0] != '.' && strcspn(d->d_name, "*?[\\") == strlen(d->d_name) &&
                    strcmp(d->d_name, "bin") != 0 && !is_shared(directory, d->d_name))
                        r = add_replaced(p, d->d_name);
        yyjson_arr_foreach (p->list, i, n, package) {
                const char *name = json_string(package, "name", NULL);
                if (r >= 0 && name)
                        r = add_metadata(p, name);
        }
        *ret = (const char *const *)p->replaced;
        return r < 0 ? error_errno(err, -r, "packages") : 0;
}

/* Executes the interpreter in the sandbox. Returns only on failure. */
static int become(struct installer_sandbox *sandbox, const char *request, struct error *err)
{
        const char *filter = getenv(PACKAGES_FILTER_VARIABLE);

        if (!filter)
                return error_set(err, EINVAL, "packages: Cloister starts this command itself");
        sandbox->filter_fd = atoi(filter);
        int r = installer_sandbox_enter(sandbox, err);
        if (r < 0)
                return error_context(err, "packages: the installer's sandbox");
        const char *const argv[] = {sandbox->python, "-I", "-B", "-c", script, request, NULL};
        execv(sandbox->python, (char *const *)argv);
        return error_errno(err, errno, "run %s", sandbox->python);
}

int packages_become_builder(const char *python, const char *request, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *shown[SHOWN_MAX + 1] = {};
        size_t i, n;
        yyjson_val *path;

        int r = json_parse(request, strlen(request), &doc, err);
        yyjson_val *root = yyjson_doc_get_root(doc), *list = yyjson_obj_get(root, "shown");
        struct installer_sandbox sandbox = {
                .top = {json_string(root, "top", NULL)},
                .root = json_string(root, "root", NULL),
                .shown = shown,
                .python = python,
                .size_max = FILE_MAX,
                .npm = strncmp(json_string(root, "action", NULL) ?: "", "npm-fetch", 9) == 0,
        };
        if (r < 0 || !sandbox.top[0] || !sandbox.root)
                return error_set(err, EINVAL, "packages: Cloister starts this command itself");
        if (yyjson_arr_size(list) > SHOWN_MAX)
                return error_set(
                        err, E2BIG,
                        "packages: more than %d files and directories are named in requirements and settings of pip",
                        SHOWN_MAX);
        yyjson_arr_foreach (list, i, n, path)
                if (!(shown[i] = yyjson_get_str(path)))
                        return error_set(err, EINVAL, "packages: a path that is not text");
        return become(&sandbox, request, err);
}

int packages_become_installer(const char *python, const char *store, struct error *err)
{
        _cleanup_buffer_ struct buffer request = BUFFER_INIT(REQUEST_MAX);
        struct json_out out = {.to = &request};
        const char *text = getenv(PACKAGES_VARIABLE);
        _cleanup_json_ yyjson_doc *doc = NULL;
        char inside[PATH_MAX], path[PATH_MAX];
        int64_t most = 0;
        struct stat st;

        if (geteuid() == 0)
                return error_set(
                        err, EPERM,
                        "packages are never installed by root: name a \"user\" in the config, who then owns the images");
        int r = text ? json_parse(text, strlen(text), &doc, err) : -EINVAL;
        yyjson_val *settings = yyjson_doc_get_root(doc);
        const char *profile = json_string(settings, "profile", NULL);
        if (r < 0 || !profile || json_int64(yyjson_obj_get(settings, "max_bytes"), &most) < 0)
                return error_set(err, EINVAL, "packages: Cloister starts this command itself");
        snprintf(inside, sizeof(inside), "%s", python);
        if (stat(python, &st) >= 0 && S_ISDIR(st.st_mode))
                snprintf(inside, sizeof(inside), "%s/bin/python3", python);
        if (access(inside, X_OK) < 0)
                snprintf(inside, sizeof(inside), "%s", IMAGE_PYTHON_DEFAULT);
        /* An interpreter finds its library by its real path, or by the description of its virtual environment. */
        char *slash = strrchr(inside, '/');
        snprintf(path, sizeof(path), "%.*s/../pyvenv.cfg", slash ? (int)(slash - inside) : 0,
                 inside);
        if (access(path, F_OK) < 0 && realpath(inside, path))
                snprintf(inside, sizeof(inside), "%s", path);
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "action", "session");
        json_out_text(&out, "store", store);
        json_out_end(&out, '}');
        r = out.error < 0 ? out.error : buffer_append(&request, "", 1);
        if (r < 0)
                return error_errno(err, -r, "packages");
        const char *language = json_string(settings, "language", NULL);
        struct installer_sandbox sandbox = {
                .top = {store, PACKAGES_INSTALLED, profile},
                .python = inside,
                .npm = language && strcmp(language, "javascript") == 0,
                .size_max = (uint64_t)most,
        };
        return become(&sandbox, buffer_bytes(&request), err);
}
