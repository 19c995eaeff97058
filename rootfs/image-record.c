/* Parts of building an image that all kinds of images have. */
#include "rootfs/image-record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "base/fd.h"

int image_record_make_root(int directory, const char *path, struct error *err)
{
        if (mkdirat(directory, "root", 0755) < 0)
                return error_errno(err, errno, "make %s", path);
        int root = openat(directory, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return root < 0 ? error_errno(err, errno, "open %s", path) : root;
}

void image_record_take(struct image_info *info, const struct interpreter *in, const char *source)
{
        time_t now = time(NULL);
        struct tm t;

        snprintf(info->python, sizeof(info->python), "%s", in->executable);
        snprintf(info->libpython, sizeof(info->libpython), "%s", in->libpython);
        info->link = in->link;
        snprintf(info->version, sizeof(info->version), "%s", in->version);
        snprintf(info->source, sizeof(info->source), "%s", source);
        strftime(info->created, sizeof(info->created), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &t));
}

bool image_record_storable(const struct image_info *info, const char *source,
                           struct image_info *again, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(IMAGE_JSON_MAX);

        return strlen(source) < sizeof(info->source) && image_info_append(&text, info) >= 0 &&
               image_info_parse(buffer_bytes(&text), text.length, again, err) >= 0;
}

int image_record_taken(const char *name, struct error *err, const char *how, const char *of)
{
        return error_set(
                err, EEXIST,
                "image %s is there already%s%s: choose another name, or 'cloister image remove %s' first",
                name, how, of, name);
}

void image_record_print_private(const struct private_files *files, const char *remedy)
{
        if (files->n == 0)
                return;
        fprintf(stderr,
                "cloister: left out %" PRIu64
                " files and directories that other users may not read (%s):",
                files->n, remedy);
        for (size_t i = 0; i < files->n && i < PRIVATE_NAMED_MAX; i++)
                fprintf(stderr, " %s", files->named[i]);
        fputs(files->n > PRIVATE_NAMED_MAX ? " …\n" : "\n", stderr);
}
