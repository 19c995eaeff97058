/*
 * cloister-unpacker: unpacks the layers of a container image. The builder (rootfs/oci-import.c) starts it, as the user that images
 * belong to:
 *
 *     cloister-unpacker SOURCE TAG WORK BYTES_MAX [private]
 *
 * SOURCE is a directory or an archive, WORK a directory that has an empty directory `root`. It answers with one line of JSON
 * (unpack.h, or "error" and "code") and writes its progress to standard error, one line for each layer.
 *
 * Before the first byte of the image is read, it gives up every privilege, in this order:
 *
 *  1. the libraries read their settings, and the directories are opened
 *  2. capabilities, no_new_privs, which the next steps require
 *  3. Landlock: reads SOURCE, changes WORK; best effort, like everywhere
 *  4. limits of memory and descriptors
 *  5. the filter (FILTER_UNPACKER): no process, no socket, no executable memory, no set-uid file, no device
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/filter-load.h"
#include "base/landlock.h"
#include "policy/package-set.h"
#include "rootfs/oci/unpack.h"

enum { ANSWER_MAX = 256 * 1024, DATA_MIB = 192, FILES_MAX = 256, SECONDS_MAX = 3600 };

static int set_limits(struct error *err)
{
        const struct {
                __rlimit_resource_t resource;
                rlim_t most;
        } limits[] = {
                {RLIMIT_DATA, (rlim_t)DATA_MIB << 20},
                {RLIMIT_NOFILE, FILES_MAX},
                {RLIMIT_CORE, 0},
                {RLIMIT_CPU, SECONDS_MAX},
                {RLIMIT_MEMLOCK, 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                struct rlimit limit = {limits[i].most, limits[i].most};
                if (setrlimit(limits[i].resource, &limit) < 0)
                        return error_errno(err, errno, "limit %zu", i);
        }
        return 0;
}

static int confine(const char *source, const char *work, struct error *err)
{
        const struct landlock_rule rules[] = {
                {source, LANDLOCK_READ},
                {work, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
        };
        const char *text = getenv(PACKAGES_FILTER_VARIABLE);
        struct error hint = {};

        if (!text)
                return error_set(err, EINVAL, "Cloister starts this command itself");
        int filter = atoi(text);
        int r = capabilities_drop(err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_errno(err, errno, "no_new_privs");
        /* An error means that the kernel has no Landlock, or another version of it. */
        (void)landlock_confine(rules, ARRAY_SIZE(rules), false, &hint);
        r = set_limits(err);
        return r < 0 ? r : filter_load(filter, err);
}

static void print_progress(const char *line)
{
        fprintf(stderr, "%s\n", line);
}

static int open_directory(const char *path, struct error *err)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? error_errno(err, errno, "%s", path) : fd;
}

static int run(char **argv, bool with_private, struct json_out *out, struct error *err)
{
        _cleanup_hash_ struct hash *hash = hash_new();
        _cleanup_source_ struct source *source = NULL;
        struct budget budget = {.bytes_max = strtoull(argv[4], NULL, 10)};
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/root", argv[3]);
        _cleanup_close_ int work = open_directory(argv[3], err);
        _cleanup_close_ int root = work < 0 ? -1 : open_directory(path, err);
        if (root < 0)
                return -err->code;
        if (!hash)
                return error_errno(err, ENOMEM, "SHA-256");
        const struct unpack_options options = {.work = work,
                                               .root = root,
                                               .tag = argv[2],
                                               .with_private = with_private,
                                               .progress = print_progress};
        int r = confine(argv[1], argv[3], err);
        if (r >= 0)
                r = source_open(argv[1], work, &budget, &source, err);
        return r < 0 ? r : unpack_image(source, &options, &budget, hash, out, err);
}

int main(int argc, char **argv)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        struct json_out out = {.to = &b};
        struct error err = {};

        if (argc < 5) {
                fprintf(stderr, "cloister-unpacker is started by Cloister\n");
                return 2;
        }
        umask(022);
        json_out_begin(&out, NULL, '{');
        if (run(argv, argc > 5, &out, &err) < 0) {
                json_out_text(&out, "error", err.text);
                json_out_int(&out, "code", err.code);
        }
        json_out_end(&out, '}');
        if (out.error < 0 || buffer_append(&b, "\n", 1) < 0 ||
            fd_write_all(STDOUT_FILENO, buffer_bytes(&b), b.length) < 0)
                return 1;
        return error_is_set(&err);
}
