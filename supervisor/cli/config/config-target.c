/* The config file that commands add entries to. */
#include "supervisor/cli/config/config-target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "supervisor/config/config-files.h"

int config_target_path(const struct options *o, const char *name, char ret[PATH_MAX],
                       struct error *err)
{
        struct stat st;

        if (o->n_configs > 1)
                return error_set(err, EINVAL, "--config: one file to write to is enough");
        if (o->n_configs == 0)
                return config_files_user_path(ret, PATH_MAX)
                               ? 0
                               : error_set(err, ENOENT, "HOME is not set: name a file by --config");
        bool directory = stat(o->configs[0], &st) == 0 && S_ISDIR(st.st_mode);
        if (snprintf(ret, PATH_MAX, "%s%s%s", o->configs[0], directory ? "/" : "",
                     directory ? name : "") >= PATH_MAX)
                return error_set(err, ENAMETOOLONG, "%s", o->configs[0]);
        return 0;
}

int config_target_read(const char *path, char **text, size_t *n, yyjson_doc **doc,
                       struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *read = NULL;

        if (fd < 0)
                return errno == ENOENT ? 0 : error_errno(err, errno, "%s", path);
        int r = fd_read_whole(fd, CONFIG_FILE_SIZE_MAX, &read, n, err);
        if (r >= 0)
                r = json_parse_config(read, *n, doc, err);
        if (r < 0)
                return error_context(err, "%s", path);
        *text = take_ptr(read);
        return 1;
}

static int write_temporary(char *name, const struct buffer *text, mode_t mode, struct error *err)
{
        _cleanup_close_ int fd = mkostemp(name, O_CLOEXEC);
        size_t done = 0;

        if (fd < 0)
                return error_errno(err, errno, "%s", name);
        while (done < text->length) {
                ssize_t n = write(fd, buffer_bytes(text) + done, text->length - done);
                if (n < 0 && errno != EINTR)
                        return error_errno(err, errno, "%s", name);
                done += n > 0 ? (size_t)n : 0;
        }
        if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
                return error_errno(err, errno, "%s", name);
        return 0;
}

int config_target_write(const char *path, const struct buffer *text, bool private,
                        struct error *err)
{
        /* Writes to the target of a symbolic link, so that the link stays. */
        _cleanup_free_ char *real = realpath(path, NULL), *name = NULL;
        _cleanup_free_ char *target = strdup(real ? real : path);
        struct stat st;

        if (!target || asprintf(&name, "%s.XXXXXX", target) < 0) {
                name = NULL;
                return error_errno(err, ENOMEM, "%s", path);
        }
        int r = path_make_parents(target, 0700);
        if (r < 0)
                return error_errno(err, -r, "make the directory of %s", target);
        mode_t mode = !private && stat(target, &st) == 0 ? st.st_mode & 0777 : 0600;
        r = write_temporary(name, text, mode, err);
        if (r >= 0 && rename(name, target) < 0)
                r = error_errno(err, errno, "%s", target);
        if (r < 0)
                unlink(name);
        return r;
}
