/* Hashes requirements files. */
#include "supervisor/cli/run/requirements-key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/image.h"

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
