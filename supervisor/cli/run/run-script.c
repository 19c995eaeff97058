/* Arguments and environment of the code, as JSON. */
#include "supervisor/cli/run/run-script.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
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

/* NAME=VALUE, or NAME, whose value is that in Cloister's own environment. Returns the length of the
 * name. */
static int take_variable(const char *given, const char **value, struct error *err)
{
        size_t n = strcspn(given, "=");
        bool named = n > 0 && !isdigit((unsigned char)given[0]);

        for (size_t i = 0; i < n; i++)
                named = named && (isalnum((unsigned char)given[i]) || given[i] == '_');
        if (!named || n > 255)
                return error_set(
                        err, EINVAL,
                        "--env %.100s: the name of a variable has letters, digits and _, and no digit first",
                        given);
        *value = given[n] == '=' ? given + n + 1 : getenv(given);
        if (!*value)
                return error_set(
                        err, ENOENT,
                        "--env %s: this variable is not set; give its value: --env %s=VALUE", given,
                        given);
        return (int)n;
}

int run_script_check(const struct options *o, struct error *err)
{
        const char *value;
        int r = 0;

        for (size_t i = 0; i < o->n_env && r >= 0; i++)
                r = take_variable(o->env[i], &value, err);
        return r < 0 ? r : 0;
}

static void append_environment(struct json_out *out, const struct options *o)
{
        const char *value;

        json_out_begin(out, "environment", '{');
        for (size_t i = 0; i < o->n_env; i++) {
                int n = take_variable(o->env[i], &value, NULL);
                if (n < 0)
                        continue; /* run_script_check() has refused it */
                json_out_key(out, o->env[i], (size_t)n);
                json_out_bytes(out, NULL, value, strlen(value));
        }
        json_out_end(out, '}');
}

int run_script_collect(const struct options *o, const char *first, const char *file, bool write,
                       enum feeder_input input, struct error *err)
{
        static const char *const names[] = {
                [FEEDER_NONE] = "none", [FEEDER_PIPE] = "pipe", [FEEDER_TERMINAL] = "terminal"};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RUN_SCRIPT_MAX);

        struct json_out out = {.to = &b};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "arguments", '[');
        json_out_bytes(&out, NULL, first, strlen(first));
        for (size_t i = 0; i < o->n_rest; i++)
                json_out_bytes(&out, NULL, o->rest[i], strlen(o->rest[i]));
        json_out_end(&out, ']');
        append_environment(&out, o);
        if (file)
                json_out_bytes(&out, "file", file, strlen(file));
        if (write)
                json_out_bool(&out, "write", true);
        json_out_text(&out, "input", names[input]);
        json_out_end(&out, '}');
        if (out.error == -EMSGSIZE)
                return error_set(err, E2BIG,
                                 "the arguments of the code, and --env, are longer than %d MiB",
                                 RUN_SCRIPT_MAX >> 20);
        if (out.error < 0)
                return error_errno(err, -out.error, "arguments of the code");
        return fd_sealed("script", buffer_bytes(&b), b.length, err);
}
