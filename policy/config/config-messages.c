/* Errors and warnings of the config's reader, with file and line. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/config-internal.h"
#include "policy/did-you-mean.h"

char *config_place(struct config_reader *reader, yyjson_val *at)
{
        size_t line = at ? config_line_of(&reader->lines, at) : 0;
        char *ret = NULL;

        int r = line ? asprintf(&ret, "%s: line %zu", reader->file, line)
                     : asprintf(&ret, "%s", reader->file);
        return r < 0 ? NULL : ret;
}

/* "FILE: line 3: text", allocated; NULL without memory. */
__attribute__((format(printf, 3, 0))) static char *message(struct config_reader *reader,
                                                           yyjson_val *at, const char *format,
                                                           va_list args)
{
        _cleanup_free_ char *text = NULL, *place = config_place(reader, at);
        char *ret = NULL;

        if (vasprintf(&text, format, args) < 0) {
                text = NULL;
                return NULL;
        }
        return !place || asprintf(&ret, "%s: %s", place, text) < 0 ? NULL : ret;
}

void config_collect(struct config *config, struct config_findings *findings)
{
        config->findings = findings;
}

void config_findings_done(struct config_findings *findings)
{
        for (size_t i = 0; i < findings->n; i++)
                free(findings->items[i].text);
        free(findings->items);
        *findings = (struct config_findings){};
}

bool config_report(struct config *config, bool is_error, const char *text)
{
        struct config_findings *f = config->findings;

        if (!f)
                return false;
        struct config_finding *grown = reallocarray(f->items, f->n + 1, sizeof(*grown));
        if (!grown)
                return false;
        f->items = grown;
        grown[f->n] = (struct config_finding){is_error, strdup(text)};
        f->n_errors += is_error;
        return grown[f->n].text ? (f->n++, true) : false;
}

int config_add_warning(struct config *config, char *text)
{
        if (text && config_report(config, false, text)) {
                free(text);
                return 0;
        }

        char **grown = text ? reallocarray(config->warnings, config->n_warnings + 1, sizeof(char *))
                            : NULL;
        if (!grown) {
                free(text);
                return -ENOMEM;
        }
        config->warnings = grown;
        grown[config->n_warnings++] = text;
        return 0;
}

int config_no_memory(struct config_reader *reader)
{
        return error_errno(reader->err, ENOMEM, "%s", reader->file);
}

int config_warn(struct config_reader *reader, yyjson_val *at, const char *format, ...)
{
        va_list args;

        if (reader->into->n_warnings >= CONFIG_WARNINGS_MAX && !reader->into->findings) {
                reader->n_warnings_left_out++;
                return 0;
        }
        va_start(args, format);
        char *text = message(reader, at, format, args);
        va_end(args);
        return config_add_warning(reader->into, text) < 0 ? config_no_memory(reader) : 0;
}

int config_wrong(struct config_reader *reader, yyjson_val *at, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        _cleanup_free_ char *text = message(reader, at, format, args);
        va_end(args);
        if (text && config_report(reader->into, true, text))
                return 0;
        return error_set(reader->err, EINVAL, "%s", text ? text : reader->file);
}

int config_warn_unknown(struct config_reader *reader, const char *where, yyjson_val *key,
                        const char *const *known)
{
        const char *name = yyjson_get_str(key), *meant = did_you_mean(name, known);

        if (meant)
                return config_warn(reader, key, "%sunknown key \"%s\"; did you mean \"%s\"?", where,
                                   name, meant);
        return config_warn(reader, key, "%sunknown key \"%s\", ignored", where, name);
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

char **config_list_free(char **list)
{
        for (char **item = list; item && *item; item++)
                free(*item);
        free(list);
        return NULL;
}

int config_list_copy(char ***to, char *const *from)
{
        size_t n = 0;

        while (from && from[n])
                n++;
        char **copy = from ? calloc(n + 1, sizeof(char *)) : NULL;
        for (size_t i = 0; copy && i < n; i++) {
                if (config_set_text(&copy[i], from[i]) < 0) {
                        config_list_free(copy);
                        return -ENOMEM;
                }
        }
        if (from && !copy)
                return -ENOMEM;
        *to = copy;
        return 0;
}

int config_append_items(void *array, size_t *count, void *more, size_t *n, size_t size)
{
        void **to = array, **from = more;

        if (*n == 0)
                return 0;
        char *grown = reallocarray(*to, *count + *n, size);
        if (!grown)
                return -ENOMEM;
        memcpy(grown + *count * size, *from, *n * size);
        *to = grown;
        *count += *n;
        *n = 0;
        return 0;
}

int config_count_warnings(struct config_reader *reader)
{
        size_t n = reader->n_warnings_left_out;
        char *text = NULL;

        if (n == 0)
                return 0;
        if (asprintf(&text, "%s: %zu more warnings left out", reader->file, n) < 0)
                return config_no_memory(reader);
        return config_add_warning(reader->into, text) < 0 ? config_no_memory(reader) : 0;
}

int config_check_twice(struct config_reader *reader, const char *where, yyjson_val *object,
                       yyjson_val *name)
{
        /* yyjson searches linearly, so looking up each key of a huge object would take too long. */
        if (yyjson_obj_size(object) > CONFIG_KEYS_MAX)
                return config_wrong(reader, NULL, "%smore than %d keys in one object", where,
                                    CONFIG_KEYS_MAX);
        if (yyjson_obj_getn(object, yyjson_get_str(name), yyjson_get_len(name)) ==
            yyjson_obj_iter_get_val(name))
                return 0;
        return config_warn(reader, name, "%s\"%s\" stands there twice; the last one counts", where,
                           yyjson_get_str(name));
}
