/* What the reader of a config has to say, with file and line. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config-parts.h"
#include "policy/did-you-mean.h"

size_t config_line_of(const struct config_reader *reader, const char *key)
{
        size_t length = strlen(key);
        const char *end = reader->data + reader->n;
        const char *found = NULL;

        for (const char *p = reader->data; length > 0; p += length) {
                p = memmem(p, (size_t)(end - p), key, length);
                if (!p)
                        break;
                const char *after = p + length + 1;
                if (p == reader->data || p[-1] != '"' || after > end || after[-1] != '"')
                        continue;
                while (after < end && isspace((unsigned char)*after))
                        after++;
                if (after == end || *after != ':')
                        continue;
                if (found)
                        return 0; /* which of them? */
                found = p;
        }
        if (!found)
                return 0;
        size_t line = 1;
        for (const char *p = reader->data; p < found; p++)
                line += *p == '\n';
        return line;
}

/* "FILE: line 3: text", allocated; NULL without memory. */
__attribute__((format(printf, 3, 0))) static char *message(const struct config_reader *reader,
                                                           const char *key, const char *format,
                                                           va_list args)
{
        size_t line = key ? config_line_of(reader, key) : 0;
        _cleanup_free_ char *text = NULL;
        char *ret = NULL;

        if (vasprintf(&text, format, args) < 0) {
                text = NULL;
                return NULL;
        }
        int r = line ? asprintf(&ret, "%s: line %zu: %s", reader->file, line, text)
                     : asprintf(&ret, "%s: %s", reader->file, text);
        return r < 0 ? NULL : ret;
}

static int add_warning(struct config *config, char *text)
{
        char **grown = reallocarray(config->warnings, config->n_warnings + 1, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        config->warnings = grown;
        grown[config->n_warnings++] = text;
        return 0;
}

int config_warn(struct config_reader *reader, const char *key, const char *format, ...)
{
        va_list args;

        if (reader->into->n_warnings >= CONFIG_WARNINGS_MAX) {
                reader->n_warnings_left_out++;
                return 0;
        }
        va_start(args, format);
        _cleanup_free_ char *text = message(reader, key, format, args);
        va_end(args);
        if (!text || add_warning(reader->into, text) < 0)
                return error_errno(reader->err, ENOMEM, "%s", reader->file);
        take_ptr(text);
        return 0;
}

int config_wrong(struct config_reader *reader, const char *key, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        _cleanup_free_ char *text = message(reader, key, format, args);
        va_end(args);
        return error_set(reader->err, EINVAL, "%s", text ? text : reader->file);
}

int config_warn_unknown(struct config_reader *reader, const char *where, const char *key,
                        const char *const *known)
{
        const char *meant = did_you_mean(key, known);

        if (meant)
                return config_warn(reader, key, "%sunknown key \"%s\"; did you mean \"%s\"?", where,
                                   key, meant);
        return config_warn(reader, key, "%sunknown key \"%s\", ignored", where, key);
}

const char *config_text(yyjson_val *value)
{
        const char *text = yyjson_get_str(value);

        return text && strlen(text) == yyjson_get_len(value) ? text : NULL;
}

int config_set_text(char **to, const char *text)
{
        char *copy = strdup(text);
        if (!copy)
                return -ENOMEM;
        free(*to);
        *to = copy;
        return 0;
}

int config_count_warnings(struct config_reader *reader)
{
        size_t n = reader->n_warnings_left_out;
        char *text = NULL;

        if (n == 0)
                return 0;
        if (asprintf(&text, "%s: %zu more warnings left out", reader->file, n) < 0)
                return error_errno(reader->err, ENOMEM, "%s", reader->file);
        if (add_warning(reader->into, text) < 0) {
                free(text);
                return error_errno(reader->err, ENOMEM, "%s", reader->file);
        }
        return 0;
}

int config_check_twice(struct config_reader *reader, const char *where, yyjson_val *object,
                       yyjson_val *name)
{
        /* yyjson looks from the front, so a look-up for each key of a huge object would take long.
         */
        if (yyjson_obj_size(object) > CONFIG_KEYS_MAX)
                return config_wrong(reader, NULL, "%smore than %d keys in one object", where,
                                    CONFIG_KEYS_MAX);
        if (yyjson_obj_getn(object, yyjson_get_str(name), yyjson_get_len(name)) ==
            yyjson_obj_iter_get_val(name))
                return 0;
        return config_warn(reader, NULL, "%s\"%s\" stands there twice; the last one counts", where,
                           yyjson_get_str(name));
}
