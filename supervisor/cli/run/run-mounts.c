/* --mount SOURCE:TARGET[:ro|:rw] */
#include "supervisor/cli/run/run-mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/utf8.h"

/* The target is an absolute path: it begins after the last colon before a slash. */
static const char *find_target(const char *given)
{
        const char *target = NULL;

        for (const char *p = given; (p = strstr(p, ":/")); p++)
                target = p + 1;
        return target;
}

static int add(struct json_out *out, const char *given, struct error *err)
{
        char source[PATH_MAX], real[PATH_MAX];
        const char *target = find_target(given);
        const char *mode = target ? strrchr(target, ':') : NULL;
        size_t n = target ? (size_t)(target - given) - 1 : 0;

        if (n == 0 || n >= sizeof(source) ||
            (mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0))
                return error_set(
                        err, EINVAL,
                        "--mount %.200s: SOURCE:TARGET is needed, with an absolute TARGET, and :ro (the default) or :rw after it",
                        given);
        snprintf(source, sizeof(source), "%.*s", (int)n, given);
        if (!realpath(source, real))
                return error_errno(err, errno, "--mount %s", source);
        n = mode ? (size_t)(mode - target) : strlen(target);
        if (!utf8_is_valid(real, strlen(real)) || !utf8_is_valid(target, n))
                return error_set(err, EILSEQ, "--mount: a path is not UTF-8");
        json_out_begin(out, NULL, '{');
        json_out_text(out, "source", real);
        json_out_string(out, "target", target, n);
        json_out_text(out, "mode", mode ? mode + 1 : "ro");
        json_out_end(out, '}');
        return 0;
}

int run_mounts_text(const struct options *o, char **ret, struct error *err)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(OPTION_MOUNTS_MAX * 4 * PATH_MAX);
        struct json_out out = {.to = &b};
        int r = 0;

        *ret = NULL;
        if (o->n_mounts == 0)
                return 0;
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "mounts", '[');
        for (size_t i = 0; i < o->n_mounts && r >= 0; i++)
                r = add(&out, o->mounts[i], err);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        if (r < 0)
                return r;
        *ret = out.error ? NULL : strndup(buffer_bytes(&b), b.length);
        return *ret ? 0 : error_errno(err, out.error ? -out.error : ENOMEM, "--mount");
}
