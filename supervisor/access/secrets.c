/* Reads the values of secrets: from a variable, a file or a command. */
#include "supervisor/access/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"
#include "base/json.h"
#include "base/utf8.h"
#include "supervisor/access/command.h"

const char *secret_value_wrong(const char *value, size_t n)
{
        if (n == 0)
                return "is empty";
        if (n < SECRET_VALUE_MIN)
                return "has less than 6 bytes, which results could contain by chance";
        if (n > SECRET_VALUE_MAX)
                return "has more than 64 KiB";
        if (memchr(value, '\n', n) || memchr(value, '\r', n))
                return "has more than one line";
        if (memchr(value, '\0', n) || !utf8_is_valid(value, n))
                return "is not text in UTF-8";
        return NULL;
}

static ssize_t take_variable(const char *variable, char *to, size_t size, struct error *err)
{
        char *value = getenv(variable);
        size_t n = value ? strlen(value) : 0;

        if (!value)
                return error_set(err, EINVAL, "its variable is missing");
        if (n >= size)
                n = size - 1;
        memcpy(to, value, n);
        to[n] = '\0';
        explicit_bzero(value, strlen(value));
        unsetenv(variable);
        return (ssize_t)n;
}

/* One line break at the end belongs to the file, not to the value. */
static ssize_t take_file(const char *path, char *to, size_t size, struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                return error_errno(err, errno, "open %s", path);
        ssize_t n = fd_read_full(fd, to, size - 1);
        if (n < 0)
                return error_errno(err, (int)-n, "read %s", path);
        if (n > 0 && to[n - 1] == '\n')
                n--;
        if (n > 0 && to[n - 1] == '\r')
                n--;
        to[n] = '\0';
        return n;
}

static ssize_t take_command(yyjson_val *list, char *to, size_t size, struct error *err)
{
        size_t n = yyjson_arr_size(list), i;
        _cleanup_free_ char **argv = calloc(n + 1, sizeof(char *));
        yyjson_val *item;

        if (!argv)
                return error_errno(err, ENOMEM, "run");
        yyjson_arr_foreach (list, i, n, item)
                argv[i] = (char *)(uintptr_t)yyjson_get_str(item);
        const struct access_command command = {
                .what = "from.command", .argv = argv, .input = "", .ms = SECRET_COMMAND_MS};
        int r = access_run(&command, to, size, err);
        return r < 0 ? r : (ssize_t)strlen(to);
}

static ssize_t take(yyjson_val *secret, char *to, size_t size, struct error *err)
{
        const char *problem = json_string(secret, "problem", NULL);
        const char *variable = json_string(secret, "variable", NULL);
        const char *file = json_string(secret, "file", NULL);

        if (problem)
                return error_set(err, ENOENT, "%s", problem);
        ssize_t n = variable ? take_variable(variable, to, size, err)
                    : file   ? take_file(file, to, size, err)
                             : take_command(yyjson_obj_get(secret, "command"), to, size, err);
        if (n < 0)
                return n;
        const char *wrong = secret_value_wrong(to, (size_t)n);
        return wrong ? error_set(err, EINVAL, "its value %s", wrong) : n;
}

int secrets_read(struct buffer *to, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *text = getenv(SECRETS_VARIABLE);
        static char value[SECRET_VALUE_MAX + 4]; /* a line break, a byte too many and a NUL */
        struct json_out out = {.to = to};
        yyjson_val *secret;
        size_t i, max;

        int r = text ? json_parse(text, strlen(text), &doc, err)
                     : error_set(err, EINVAL, "%s is missing", SECRETS_VARIABLE);
        if (r < 0)
                return r;
        unsetenv(SECRETS_VARIABLE);
        json_out_begin(&out, NULL, '{');
        yyjson_arr_foreach (yyjson_doc_get_root(doc), i, max, secret) {
                const char *name = json_string(secret, "name", NULL);
                ssize_t n = take(secret, value, sizeof(value), err);
                if (n < 0)
                        return error_context(err, "secret %s", name ? name : "");
                json_out_text(&out, name, value);
        }
        explicit_bzero(value, sizeof(value));
        json_out_end(&out, '}');
        if (out.error >= 0)
                out.error = buffer_append_text(to, "\n");
        return out.error < 0 ? error_errno(err, -out.error, "secrets") : 0;
}
