/* The parts of a copy that both directions use. */
#include "supervisor/cli/sessions/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/cli/command/fail.h"

enum { TELL_AFTER_MS = 1000, TELL_EVERY_MS = 200 };

int copy_take_path(const char *text, struct copy_end *ret, struct error *err)
{
        static const char root[] = "/workspace";
        const char *path = text;
        size_t n = sizeof(root) - 1;

        if (strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0'))
                path += n + (path[n] == '/');
        n = strlen(path);
        ret->is_directory = n == 0 || path[n - 1] == '/';
        while (n > 0 && path[n - 1] == '/')
                n--;
        if (n > 0 && !file_path_valid(path, n))
                return error_set(
                        err, EINVAL,
                        "%.200s: only files below /workspace can be copied, without .. in their path",
                        text);
        snprintf(ret->path, sizeof(ret->path), "%.*s", (int)n, path);
        return 0;
}

int copy_list(struct copy *copy, const char *path, yyjson_doc **ret, yyjson_val **result,
              struct error *err)
{
        _cleanup_buffer_ struct buffer params = BUFFER_INIT(4096);
        struct json_out out = {.to = &params};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "name", copy->end.session);
        json_out_text(&out, "path", path);
        json_out_end(&out, '}');
        return server_link_ask(&copy->link, "files/list", &params, ret, result, err);
}

void copy_progress(struct copy *copy, size_t n)
{
        uint64_t now = clock_ms();

        copy->bytes += n;
        if (copy->begun_ms == 0)
                copy->begun_ms = now;
        if (copy->quiet || now - copy->begun_ms < TELL_AFTER_MS ||
            now - copy->told_ms < TELL_EVERY_MS)
                return;
        copy->told_ms = now;
        copy->has_told = true;
        fprintf(stderr, "\r%" PRIu64 " MiB in %" PRIu64 " s, %" PRIu64 " files\033[K",
                copy->bytes >> 20, (now - copy->begun_ms) / 1000, copy->files);
}

void copy_end_progress(struct copy *copy)
{
        if (copy->has_told)
                fputs("\r\033[K", stderr);
        copy->has_told = false;
}

void copy_skip(struct copy *copy, const char *path, const char *why)
{
        struct error err = {};

        copy_end_progress(copy);
        copy->failed++;
        error_set(&err, EIO, "%s: %s", path, why);
        cli_fail(1, &err);
}

int copy_join(const char *directory, const char *name, char ret[FILE_PATH_MAX + 1])
{
        int n = snprintf(ret, FILE_PATH_MAX + 1, "%s%s%s", directory, *directory ? "/" : "", name);

        return n > FILE_PATH_MAX ? -ENAMETOOLONG : 0;
}

const char *copy_last_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}
