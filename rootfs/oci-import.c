/* Unpacks a container image. */
#include "rootfs/oci-import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/program.h"
#include "policy/quantity.h"
#include "rootfs/process.h"
#include "rootfs/store.h"

enum {
        ANSWER_MAX = 256 * 1024,
        ERRORS_MAX = 16 * 1024,
        SETTINGS_MAX = 256 * 1024,
        UNPACK_MS = 50 * 60 * 1000,
        PULL_MS = 45 * 60 * 1000,
        DEPTH_MAX = 130, /* of a layer, and the root */
        LINES_MAX = 10000,
        REF_MAX = 400,
        DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

#define BYTES_DEFAULT (UINT64_C(16) << 30)
#define PATH_USUAL    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int bytes_max(uint64_t *ret, struct error *err)
{
        const char *text = getenv("CLOISTER_IMAGE_MAX");
        char shown[100];

        *ret = BYTES_DEFAULT;
        if (!text || !*text)
                return 0;
        if (quantity_bytes_of(text, ret) >= 0 && *ret > 0 && *ret <= INT64_MAX)
                return 0;
        printable_escape(shown, sizeof(shown), text);
        return error_set(err, EINVAL, "CLOISTER_IMAGE_MAX: \"%s\" is not a size such as 40GiB",
                         shown);
}

/* ---- an image of a registry ---- */

static int check_reference(const char *reference, struct error *err)
{
        char shown[100];

        if (*reference && *reference != '-' && strlen(reference) < REF_MAX &&
            strspn(reference, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "._-/:@+") == strlen(reference))
                return 0;
        printable_escape(shown, sizeof(shown), reference);
        return error_set(err, EINVAL,
                         "\"%s\" is not the name of an image, such as docker.io/library/debian:12",
                         shown);
}

static const char *architecture(void)
{
        static struct utsname name;

        if (uname(&name) < 0 || strcmp(name.machine, "x86_64") == 0)
                return "amd64";
        return strcmp(name.machine, "aarch64") == 0 ? "arm64" : name.machine;
}

/* A file that grows beyond the bound ends the program. */
static int run_bounded(const char *const argv[], uint64_t most, struct process *ret,
                       struct error *err)
{
        struct rlimit before, bounded;

        if (getrlimit(RLIMIT_FSIZE, &before) < 0)
                return error_errno(err, errno, "limit of a file's size");
        bounded = (struct rlimit){most < before.rlim_max ? most : before.rlim_max, before.rlim_max};
        if (setrlimit(RLIMIT_FSIZE, &bounded) < 0)
                return error_errno(err, errno, "limit of a file's size");
        int r = process_start(argv, ret, err);
        setrlimit(RLIMIT_FSIZE, &before);
        return r;
}

static int fail_to_fetch(const char *program, struct buffer *errors, struct error *err)
{
        const char *why = process_last_line(errors);
        char shown[300];

        printable_escape(shown, sizeof(shown), why && *why ? why : "it printed no error");
        return error_set(err, EIO, "%s: %s", program, shown);
}

static int fetch(const char *reference, const char *to, uint64_t most, struct error *err)
{
        char source[REF_MAX + 16], target[PATH_MAX + 16], platform[80];
        const char *const skopeo[] = {"skopeo",       "--override-os",
                                      "linux",        "--override-arch",
                                      architecture(), "copy",
                                      "--quiet",      source,
                                      target,         NULL};
        const char *const crane[] = {
                "crane", "pull", "--format=oci", "--platform", platform, reference, to, NULL};
        const char *const *const programs[] = {skopeo, crane};

        int r = check_reference(reference, err);
        if (r < 0)
                return r;
        snprintf(source, sizeof(source), OCI_REGISTRY "%s", reference);
        snprintf(target, sizeof(target), "oci:%s:image", to);
        snprintf(platform, sizeof(platform), "linux/%s", architecture());
        for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
                _cleanup_buffer_ struct buffer output = BUFFER_INIT(ANSWER_MAX);
                _cleanup_buffer_ struct buffer errors = BUFFER_INIT(ERRORS_MAX + 1);
                struct process process;
                int status = 0;
                r = run_bounded(programs[i], most, &process, err);
                if (r >= 0)
                        r = process_finish(&process, PULL_MS, &output, &errors, &status, err);
                if (r < 0)
                        return error_context(err, "%s", programs[i][0]);
                if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                        return 0;
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 127)
                        return fail_to_fetch(programs[i][0], &errors, err);
        }
        return error_set(
                err, ENOENT,
                "neither skopeo nor crane is in PATH: install one (apt install skopeo), or fetch the image yourself and name its OCI layout or archive");
}

/* ---- what the unpacker left ---- */

/* The modes of an image, and nothing that is more than a file, a directory or a symbolic link. */
static int check_tree(int directory, int depth, struct oci_image *image)
{
        _cleanup_closedir_ DIR *stream = fd_open_directory(directory, ".");
        struct stat st;

        if (!stream || depth > DEPTH_MAX)
                return stream ? -ELOOP : -errno;
        for (struct dirent *d; (d = fd_next_entry(stream));) {
                if (fstatat(directory, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        return -errno;
                mode_t mode = st.st_mode & 07777;
                if (S_ISDIR(st.st_mode)) {
                        _cleanup_close_ int below = openat(directory, d->d_name, DIRECTORY);
                        int r = below < 0      ? -errno
                                : mode != 0755 ? -EPERM
                                               : check_tree(below, depth + 1, image);
                        if (r < 0)
                                return r;
                        continue;
                }
                if (!S_ISLNK(st.st_mode) &&
                    (!S_ISREG(st.st_mode) || st.st_nlink != 1 || (mode != 0755 && mode != 0644)))
                        return -EPERM;
                image->files++;
                image->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        }
        return 0;
}

/* Moves its root to the place of an image's, and removes the rest. */
static int take_tree(int directory, struct oci_image *image, struct error *err)
{
        _cleanup_close_ int root = openat(directory, "unpack/root", DIRECTORY);
        struct stat st;

        if (root < 0 || fstat(root, &st) < 0)
                return error_errno(err, errno, "unpacked image");
        int r = (st.st_mode & 07777) != 0755 ? -EPERM : check_tree(root, 0, image);
        if (r < 0)
                return error_errno(err, -r, "the unpacker left a file that an image cannot have");
        if (renameat(directory, "unpack/root", directory, "root") < 0)
                return error_errno(err, errno, "unpacked image");
        r = store_clear(directory, "unpack");
        if (r >= 0)
                r = store_clear(directory, "fetched");
        return r < 0 && r != -ENOENT ? error_errno(err, -r, "unpacked image") : 0;
}

/* ---- the answer ---- */

static uint64_t count(yyjson_val *root, const char *key)
{
        int64_t n = 0;

        return json_int64(yyjson_obj_get(root, key), &n) < 0 || n < 0 ? 0 : (uint64_t)n;
}

static void take_private(yyjson_val *root, struct private_files *to)
{
        yyjson_val *name;
        size_t i, n;

        yyjson_arr_foreach (yyjson_obj_get(root, "named"), i, n, name)
                if (yyjson_is_str(name) && i < PRIVATE_NAMED_MAX)
                        private_files_add(to, yyjson_get_str(name));
        uint64_t all = count(root, "private");
        to->n = all > to->n ? all : to->n;
}

static int write_settings(yyjson_val *root, struct oci_image *image)
{
        struct json_out out = {.to = &image->settings};
        yyjson_val *variable;
        size_t i, n;

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "env", '[');
        yyjson_arr_foreach (yyjson_obj_get(root, "env"), i, n, variable) {
                const char *text = yyjson_get_str(variable);
                if (!text || !strchr(text, '='))
                        continue;
                if (strncmp(text, "PATH=", 5) == 0)
                        snprintf(image->search, sizeof(image->search), "%s", text + 5);
                json_out_text(&out, NULL, text);
        }
        json_out_end(&out, ']');
        if (*image->workdir)
                json_out_text(&out, "workdir", image->workdir);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append(&image->settings, "\n", 2);
}

/* Builders of images write "/" if no directory was requested. */
static void take_workdir(yyjson_val *root, struct oci_image *image)
{
        const char *path = json_string(root, "workdir", NULL);

        if (path && path_is_clean(path) && strcmp(path, "/") != 0)
                snprintf(image->workdir, sizeof(image->workdir), "%s", path);
}

static int take_answer(struct buffer *answer, int status, struct oci_image *image,
                       struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *line = process_last_line(answer);
        int64_t code = EIO;

        if (line && *line)
                json_parse(line, strlen(line), &doc, NULL);
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *why = json_string(root, "error", NULL);
        const char *digest = json_string(root, "digest", NULL);
        if (why) {
                char shown[400];
                json_int64(yyjson_obj_get(root, "code"), &code);
                if (code == ENOSPC || code == EDQUOT)
                        return (int)-code;
                printable_escape(shown, sizeof(shown), why);
                return error_set(err, EBADMSG, "%s", shown);
        }
        if (WIFSIGNALED(status))
                return error_set(err, EIO, "the unpacker was ended by signal %d (%s)",
                                 WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !digest || strlen(digest) != 64)
                return error_set(err, EIO, "the unpacker did not answer (status %d)", status);
        snprintf(image->digest, sizeof(image->digest), "%s", digest);
        image->layers = count(root, "layers");
        image->left_out = count(root, "left_out");
        take_private(root, &image->private);
        take_workdir(root, image);
        int r = write_settings(root, image);
        return r < 0 ? error_errno(err, -r, "its config") : 0;
}

/* ---- all ---- */

static void on_line(void *data, const char *line)
{
        struct progress *progress = data;
        char shown[200];

        printable_escape(shown, sizeof(shown), line);
        if (progress->lines++ < LINES_MAX)
                progress_stage(progress, "%s", shown);
}

static int unpack(const char *source, const char *tag, const char *path, uint64_t most,
                  bool with_private, struct progress *progress, struct oci_image *image,
                  struct error *err)
{
        char program[PATH_MAX], work[PATH_MAX], bytes[32];
        _cleanup_buffer_ struct buffer answer = BUFFER_INIT(ANSWER_MAX + 1);
        struct process process;
        int status = 0;

        int r = program_path("cloister-unpacker", program, sizeof(program), err);
        if (r < 0)
                return r;
        if (snprintf(work, sizeof(work), "%s/unpack", path) >= (int)sizeof(work))
                return error_errno(err, ENAMETOOLONG, "%s", path);
        snprintf(bytes, sizeof(bytes), "%" PRIu64, most);
        const char *const argv[] = {
                program, source, tag, work, bytes, with_private ? "private" : NULL, NULL};
        r = process_start(argv, &process, err);
        if (r >= 0)
                r = process_follow(&process, UNPACK_MS, &answer, on_line, progress, &status, err);
        return r < 0 ? error_context(err, "unpack the image")
                     : take_answer(&answer, status, image, err);
}

/* A path may contain a colon itself. */
static void split(const char *image, char source[PATH_MAX], const char **tag)
{
        struct stat st;
        const char *colon = strrchr(image, ':');

        snprintf(source, PATH_MAX, "%s", image);
        *tag = "";
        if (!colon || stat(image, &st) == 0)
                return;
        source[colon - image] = '\0';
        *tag = colon + 1;
}

int oci_import(const char *image, int directory, const char *path, bool with_private,
               struct progress *progress, struct oci_image *ret, struct error *err)
{
        const size_t prefix = strlen(OCI_REGISTRY);
        char source[PATH_MAX];
        const char *tag = "";
        uint64_t most = 0;

        *ret = (struct oci_image){.settings = BUFFER_INIT(SETTINGS_MAX), .search = PATH_USUAL};
        int r = bytes_max(&most, err);
        if (r < 0)
                return r;
        if (strlen(image) >= PATH_MAX)
                return error_errno(err, ENAMETOOLONG, "the path of the image");
        if (strncmp(image, OCI_REGISTRY, prefix) == 0) {
                if (snprintf(source, sizeof(source), "%s/fetched", path) >= (int)sizeof(source))
                        return error_errno(err, ENAMETOOLONG, "%s", path);
                progress_stage(progress, "fetching %s", image + prefix);
                r = fetch(image + prefix, source, most, err);
                if (r < 0)
                        return r;
        } else {
                split(image, source, &tag);
        }
        if (mkdirat(directory, "unpack", 0755) < 0 || mkdirat(directory, "unpack/root", 0755) < 0)
                return errno == ENOSPC || errno == EDQUOT ? -errno
                                                          : error_errno(err, errno, "%s", path);
        r = unpack(source, tag, path, most, with_private, progress, ret, err);
        return r < 0 ? r : take_tree(directory, ret, err);
}

void oci_image_done(struct oci_image *image)
{
        buffer_done(&image->settings);
}
