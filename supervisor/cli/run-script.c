/* Arguments and environment of the code, as JSON. */
#include "supervisor/cli/run-script.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"

/* Bytes that are not UTF-8 become lone surrogates, as Python has them in str (PEP 383). */
static int append_text(struct buffer *to, const char *text, size_t n)
{
        int r = buffer_append(to, "\"", 1);

        for (size_t at = 0; at < n && r >= 0;) {
                int length = utf8_next((const unsigned char *)text + at, n - at);
                unsigned char c = (unsigned char)text[at];
                if (length <= 0)
                        r = buffer_printf(to, "\\udc%02x", c);
                else if (c < ' ' || c == '"' || c == '\\')
                        r = buffer_printf(to, "\\u%04x", c);
                else
                        r = buffer_append(to, text + at, (size_t)length);
                at += length > 0 ? (size_t)length : 1;
        }
        return r < 0 ? r : buffer_append(to, "\"", 1);
}

static int append_arguments(struct buffer *to, const struct options *o, const char *first)
{
        int r = buffer_append_text(to, "{\"arguments\":[");

        if (r >= 0)
                r = append_text(to, first, strlen(first));
        for (size_t i = 0; i < o->n_rest && r >= 0; i++) {
                r = buffer_append(to, ",", 1);
                if (r >= 0)
                        r = append_text(to, o->rest[i], strlen(o->rest[i]));
        }
        return r < 0 ? r : buffer_append_text(to, "],\"environment\":{");
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

static int append_environment(struct buffer *to, const struct options *o)
{
        const char *value;
        int r = 0;

        for (size_t i = 0; i < o->n_env && r >= 0; i++) {
                int n = take_variable(o->env[i], &value, NULL);
                if (n < 0)
                        return n;
                r = i ? buffer_append(to, ",", 1) : 0;
                if (r >= 0)
                        r = append_text(to, o->env[i], (size_t)n);
                if (r >= 0)
                        r = buffer_append(to, ":", 1);
                if (r >= 0)
                        r = append_text(to, value, strlen(value));
        }
        return r < 0 ? r : buffer_append_text(to, "}");
}

int run_script_collect(const struct options *o, const char *first, const char *file, bool write,
                       enum feeder_input input, struct error *err)
{
        static const char *const names[] = {
                [FEEDER_NONE] = "none", [FEEDER_PIPE] = "pipe", [FEEDER_TERMINAL] = "terminal"};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RUN_SCRIPT_MAX);

        int r = append_arguments(&b, o, first);
        if (r >= 0)
                r = append_environment(&b, o);
        if (r >= 0 && file)
                r = buffer_append_text(&b, ",\"file\":");
        if (r >= 0 && file)
                r = append_text(&b, file, strlen(file));
        if (r >= 0 && write)
                r = buffer_append_text(&b, ",\"write\":true");
        if (r >= 0)
                r = buffer_printf(&b, ",\"input\":\"%s\"}", names[input]);
        if (r == -EMSGSIZE)
                return error_set(err, E2BIG,
                                 "the arguments of the code, and --env, are longer than %d MiB",
                                 RUN_SCRIPT_MAX >> 20);
        if (r < 0)
                return error_errno(err, -r, "arguments of the code");
        return fd_sealed("script", buffer_bytes(&b), b.length, err);
}
