/* Warnings and mistakes with file and line. */
#include "policy/config/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * Finds the line of a value.
 *
 * yyjson does not record the position of a value, but it stores all values of a document, including
 * keys, in one array in the order of the text. So the value with index i begins at the i-th token
 * of the text, if only tokens that begin a value are counted (not commas, colons, closing brackets
 * and comments). yyjson has already accepted the text, so it is not checked again.
 */
static void step(struct config_lines *s)
{
        s->line += *s->p++ == '\n';
}

static void skip_comment(struct config_lines *s)
{
        bool block = s->p[1] == '*';

        for (s->p += 2; s->p < s->end; step(s)) {
                if (!block && *s->p == '\n')
                        return;
                if (block && s->end - s->p >= 2 && s->p[0] == '*' && s->p[1] == '/') {
                        s->p += 2;
                        return;
                }
        }
}

/* Advances to the next value, or to the end. */
static void next(struct config_lines *s)
{
        static const char between[] = " \t\r\n,:]}";

        while (s->p < s->end) {
                if (s->end - s->p >= 2 && s->p[0] == '/')
                        skip_comment(s);
                else if (*s->p && strchr(between, *s->p))
                        step(s);
                else
                        return;
        }
}

static void skip_string(struct config_lines *s)
{
        for (s->p++; s->p < s->end && *s->p != '"'; step(s)) {
                if (*s->p == '\\' && s->end - s->p >= 2)
                        s->p++;
        }
        if (s->p < s->end)
                s->p++;
}

static void skip_token(struct config_lines *s)
{
        static const char ends[] = " \t\r\n,:]}[{/\"";

        if (*s->p == '"') {
                skip_string(s);
                return;
        }
        bool opens = *s->p == '{' || *s->p == '[';
        s->p++;
        while (!opens && s->p < s->end && !(*s->p && strchr(ends, *s->p)))
                s->p++;
}

static void rewind_lines(struct config_lines *s)
{
        s->p = s->begin;
        s->line = 1;
        s->index = 0;
        next(s);
}

void config_lines_init(struct config_lines *lines, const char *data, size_t n,
                       const yyjson_val *root)
{
        static const char bom[] = {'\xef', '\xbb', '\xbf'};
        size_t skipped = n >= sizeof(bom) && memcmp(data, bom, sizeof(bom)) == 0 ? sizeof(bom) : 0;

        *lines = (struct config_lines){.begin = data + skipped, .end = data + n, .root = root};
        rewind_lines(lines);
}

size_t config_line_of(struct config_lines *lines, const yyjson_val *value)
{
        if (!lines->root || value < lines->root)
                return 0;
        size_t index = (size_t)(value - lines->root);
        if (index < lines->index)
                rewind_lines(lines);
        for (; lines->index < index && lines->p < lines->end; lines->index++) {
                skip_token(lines);
                next(lines);
        }
        return lines->p < lines->end ? lines->line : 0;
}

/* ---- messages ---- */

char *config_place_of(struct config_reader *reader, yyjson_val *at)
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
        _cleanup_free_ char *text = NULL, *place = config_place_of(reader, at);
        char *ret = NULL;

        if (vasprintf(&text, format, args) < 0) {
                text = NULL;
                return NULL;
        }
        return !place || asprintf(&ret, "%s: %s", place, text) < 0 ? NULL : ret;
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
                        const char *nearest)
{
        const char *name = yyjson_get_str(key);

        if (nearest)
                return config_warn(reader, key, "%sunknown key \"%s\"; did you mean \"%s\"?", where,
                                   name, nearest);
        return config_warn(reader, key, "%sunknown key \"%s\", ignored", where, name);
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
        return config_warn(reader, name, "%s\"%s\" occurs twice; the last one counts", where,
                           yyjson_get_str(name));
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

int config_refer(struct config_reader *reader, enum config_reference_kind kind, const char *from,
                 const char *to, yyjson_val *at)
{
        struct config *config = reader->into;
        struct config_reference *grown = reallocarray(config->pending, config->n_pending + 1,
                                                      sizeof(*grown));
        if (!grown)
                return config_no_memory(reader);
        config->pending = grown;
        struct config_reference *new = &grown[config->n_pending++];
        *new = (struct config_reference){kind, from ? strdup(from) : NULL, strdup(to),
                                         config_place_of(reader, at)};
        return !new->to || !new->place || (from && !new->from) ? config_no_memory(reader) : 0;
}

int config_problem(struct config_reader *reader, struct config_server *server, bool mild,
                   yyjson_val *at, const char *text)
{
        _cleanup_free_ char *finding = NULL;

        if (server->problem)
                return 0;
        char *place = config_place_of(reader, at);
        free(server->place);
        server->place = place;
        server->problem = strdup(text);
        if (!place || !server->problem)
                return -ENOMEM;
        if (!reader->into->findings)
                return 0;
        if (asprintf(&finding, "%s: server \"%s\": %s", place, server->name, text) < 0) {
                finding = NULL;
                return -ENOMEM;
        }
        config_report(reader->into, !mild, finding);
        return 0;
}

const char *config_text(yyjson_val *value)
{
        const char *text = yyjson_get_str(value);

        return text && strlen(text) == yyjson_get_len(value) ? text : NULL;
}
