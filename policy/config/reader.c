/* Warnings and mistakes with file and line. */
#include "policy/config/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/image.h"
#include "policy/python-version.h"
#include "policy/quantity.h"

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

/* ---- values and objects: types, ranges, and the messages about them ---- */

enum { SECOND = 1000, USER_NAME_MAX = 32, VISIBLE_MAX = 2048, MESSAGE_MAX = 512, WHERE_MAX = 600 };

DEFINE_CLEANUP(char **, config_list_free)

int config_mistake(struct config_reading *r, yyjson_val *at, const char *format, ...)
{
        char text[MESSAGE_MAX];
        va_list args;

        r->wrong = true;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (!r->server)
                return config_wrong(r->reader, at, "%s%s%s", r->where, r->path, text);
        char whole[MESSAGE_MAX + 64];
        snprintf(whole, sizeof(whole), "%s%s", r->path, text);
        return config_problem(r->reader, r->server, false, at, whole);
}

static const char *const meanings[] = {
        [CONFIG_BOOL] = "true or false",
        [CONFIG_BYTES] = "a size such as \"512M\" or a number of bytes",
        [CONFIG_COUNT] = "a whole number",
        [CONFIG_TIME] = "a number of seconds or a string such as \"30s\" or \"5m\"",
        [CONFIG_CORES] = "a number of cores such as 0.5",
        [CONFIG_TEXT] = "a string",
        [CONFIG_WORD] = "a string that is not empty",
        [CONFIG_IMAGE] = "a name: letters, digits, _ . - (at most 64)",
        [CONFIG_PATH] = "an absolute path",
        [CONFIG_PYTHON] = ("an absolute path, or " PYTHON_VERSION_TEXT),
        [CONFIG_USER] = "the name of a user or group",
        [CONFIG_VISIBLE] = "a string of 1 to 2048 printable characters",
};

static int number_of(const struct config_reading *r, const struct config_key *key,
                     yyjson_val *value, uint64_t *ret)
{
        uint32_t small = 0;
        int64_t whole = 0;
        int e;

        switch (key->kind) {
        case CONFIG_BYTES:
                return quantity_bytes(value, ret);
        case CONFIG_COUNT:
                e = json_int64(value, &whole);
                *ret = whole < 0 ? 0 : (uint64_t)whole;
                return e < 0 ? e : whole < 0 ? -ERANGE : 0;
        case CONFIG_TIME:
                e = r->form == CONFIG_MILLISECONDS && !yyjson_is_str(value)
                            ? json_int64(value, &whole)
                            : quantity_milliseconds(value, &small);
                if (e == 0 && whole != 0)
                        small = whole < 0 || whole > UINT32_MAX ? UINT32_MAX : (uint32_t)whole;
                break;
        default:
                e = quantity_thousandths(value, &small);
                break;
        }
        *ret = small;
        return e;
}

static void print_bound(char *to, size_t n, enum config_kind kind, uint64_t v)
{
        switch (kind) {
        case CONFIG_BYTES:
                config_print_bytes(to, n, v);
                return;
        case CONFIG_TIME:
                snprintf(to, n, "%g s", (double)v / SECOND);
                return;
        case CONFIG_CORES:
                snprintf(to, n, "%g", (double)v / 1000);
                return;
        default:
                snprintf(to, n, "%llu", (unsigned long long)v);
        }
}

static int read_number(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char least[32], most[32];
        uint64_t v = 0;

        if (key->words && yyjson_equals_str(value, key->words[0])) {
                config_set_number(key, r->into, CONFIG_UNLIMITED);
                return 0;
        }
        int e = number_of(r, key, value, &v);
        if (e == -EINVAL)
                return config_mistake(r, value, "%s must be %s", r->name, meanings[key->kind]);
        if (e < 0 || v < key->least || v > key->most) {
                print_bound(least, sizeof(least), key->kind, key->least);
                print_bound(most, sizeof(most), key->kind, key->most);
                return config_mistake(r, value, "%s must be from %s to %s", r->name, least, most);
        }
        config_set_number(key, r->into, v);
        return 0;
}

static int read_word(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char all[MESSAGE_MAX] = "";
        size_t n = 0;

        for (uint64_t i = 0; key->words[i]; i++) {
                if (yyjson_equals_str(value, key->words[i])) {
                        config_set_number(key, r->into, i);
                        return 0;
                }
                n += (size_t)snprintf(all + n, sizeof(all) - n, "%s\"%s\"",
                                      i == 0              ? ""
                                      : key->words[i + 1] ? ", "
                                                          : " or ",
                                      key->words[i]);
        }
        return config_mistake(r, value, "%s must be %s", r->name, all);
}

static int read_bool(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_bool(value))
                return config_mistake(r, value, "%s must be %s", r->name, meanings[CONFIG_BOOL]);
        config_set_number(key, r->into, yyjson_get_bool(value) != (r->form == CONFIG_INVERTED));
        return 0;
}

static bool is_user_name(const char *text)
{
        size_t n = strlen(text);
        return n > 0 && n <= USER_NAME_MAX && text[0] != '-' &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$") ==
                       n;
}

static bool is_visible(const char *text)
{
        size_t n = strlen(text);

        for (const char *p = text; *p; p++)
                if (*p <= ' ' || *p > '~')
                        return false;
        return n > 0 && n <= VISIBLE_MAX;
}

static bool is_good(const struct config_key *key, const char *text)
{
        struct python_version version;

        switch (key->kind) {
        case CONFIG_WORD:
                return *text != '\0';
        case CONFIG_IMAGE:
                return image_name_valid(text);
        case CONFIG_PATH:
                return text[0] == '/';
        case CONFIG_PYTHON:
                return text[0] == '/' || python_version_parse(text, &version, NULL) == 0;
        case CONFIG_USER:
                return is_user_name(text);
        case CONFIG_VISIBLE:
                return is_visible(text);
        default:
                return true;
        }
}

static int read_text(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || !is_good(key, text))
                return config_mistake(r, value, "%s must be %s", r->name, meanings[key->kind]);
        return config_set_text(config_member(key, r->into), text) < 0 ? config_no_memory(r->reader)
                                                                      : 0;
}

int config_read_items(struct config_reading *r, yyjson_val *value, config_item_fn *make,
                      char ***ret)
{
        yyjson_obj_iter members = yyjson_obj_iter_with(value);
        yyjson_arr_iter items = yyjson_arr_iter_with(value);
        size_t n = yyjson_get_len(value);
        _cleanup_(cleanup_config_list_free) char **list = calloc(n + 1, sizeof(char *));

        if (!list)
                return config_no_memory(r->reader);
        for (size_t i = 0; i < n; i++) {
                yyjson_val *name = yyjson_obj_iter_next(&members);
                yyjson_val *item = name ? yyjson_obj_iter_get_val(name)
                                        : yyjson_arr_iter_next(&items);
                int e = make(r, name, item, i + 1, &list[i]);
                if (e < 0 || r->wrong)
                        return e;
                if (!list[i])
                        return config_no_memory(r->reader);
        }
        config_list_free(*ret);
        *ret = take_ptr(list);
        return 0;
}

static int make_name(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                     char **ret)
{
        const char *text = config_text(value);

        if (!text || *text == '\0' || strlen(text) > CONFIG_NAME_MAX)
                return config_mistake(r, value, "%s: item %zu must be a string of 1 to %d bytes",
                                      r->name, i, CONFIG_NAME_MAX);
        *ret = strdup(text);
        return 0;
}

static int read_list(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > key->most)
                return config_mistake(r, value, "%s must be an array of at most %llu strings",
                                      r->name, (unsigned long long)key->most);
        return config_read_items(r, value, make_name, config_member(key, r->into));
}

/* Prints the beginning of a warning: `profile "x": packages: `. */
static void print_where(const struct config_reading *r, char to[WHERE_MAX])
{
        int n = (int)strlen(r->path);

        snprintf(to, WHERE_MAX, "%s%.*s%s", r->where, n > 0 ? n - 1 : 0, r->path,
                 n > 0 ? ": " : "");
}

static bool is_key_of(const struct config_reading *r, const struct config_key *key)
{
        return !key->published || (r->entry && key->published & 1u << r->entry->kind);
}

int config_read_members(struct config_reading *r, enum config_place place, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        char where[WHERE_MAX];
        int e = 0;

        print_where(r, where);
        /* The first mistake in an object of a server is its problem; the rest is not read. */
        while (e >= 0 && !(r->server && r->wrong && place != CONFIG_SERVER) &&
               (name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                const struct config_key *key = config_find_key(place, text, &r->form);
                yyjson_val *value = yyjson_obj_iter_get_val(name);

                e = config_check_twice(r->reader, where, object, name);
                r->name = text;
                if (e >= 0 && key && is_key_of(r, key))
                        e = config_read_value(r, key, value);
                else if (e >= 0 && r->form != CONFIG_FOREIGN)
                        e = config_warn_unknown(r->reader, where, name,
                                                key ? NULL : config_nearest_key(place, text));
        }
        return e;
}

/* "{"survives": …, "checkpoints": …}" */
static void print_keys(enum config_place place, char to[MESSAGE_MAX])
{
        size_t n = 0;

        for (const struct config_key *key = NULL; (key = config_next_key(place, key));)
                if (key->name && n < MESSAGE_MAX)
                        n += (size_t)snprintf(to + n, MESSAGE_MAX - n, "%s\"%s\": …",
                                              n > 0 ? ", " : "{", key->name);
        if (n < MESSAGE_MAX)
                snprintf(to + n, MESSAGE_MAX - n, "}");
}

int config_read_object(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char path[WHERE_MAX], keys[MESSAGE_MAX];
        struct config_reading inner = *r;

        if (!yyjson_is_obj(value)) {
                print_keys(key->inside, keys);
                return config_mistake(r, value, "%s must be an object: %s", r->name, keys);
        }
        if (!(key->flags & CONFIG_SEPARATE))
                config_reset(key, r->into);
        snprintf(path, sizeof(path), "%s%s.", r->path, r->name);
        inner.path = path;
        inner.into = config_member(key, r->into);
        inner.wrong = false;
        int e = config_read_members(&inner, key->inside, value);
        r->wrong |= inner.wrong;
        return e;
}

static int read_by_kind(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (key->kind == CONFIG_BOOL)
                return read_bool(r, key, value);
        if (key->kind == CONFIG_WORDS)
                return read_word(r, key, value);
        if (config_is_number(key))
                return read_number(r, key, value);
        if (config_is_text(key))
                return read_text(r, key, value);
        if (key->kind == CONFIG_LIST)
                return read_list(r, key, value);
        return key->kind == CONFIG_OBJECT ? config_read_object(r, key, value) : 0;
}

int config_read_value(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_reading at = *r;
        int e = 0;

        at.wrong = false;
        if (key->place == CONFIG_PROFILE && r->profile)
                at.into = r->profile;
        if (r->profile && (key->place == CONFIG_PROFILE || key->place == CONFIG_LIMITS))
                r->profile->said |= config_key_bit(key);
        /* "includeTools" of a server is "allow" of its "tools". */
        if (key->place == CONFIG_RULES && r->server && at.into == r->server)
                at.into = &r->server->tools;
        if (!(key->flags & CONFIG_BY_CODE))
                e = read_by_kind(&at, key, value);
        if (e >= 0 && !at.wrong && key->code != CODE_NONE) {
                e = r->codes[key->code](&at, key, value);
                /* A text that is not valid, as a secret that was written out, is not kept. */
                if (at.wrong && config_is_text(key))
                        config_reset(key, at.into);
        }
        r->wrong |= at.wrong;
        return e;
}
