/* Where values are in the text of a JSON or TOML file. */
#include "supervisor/cli/config/value-text.h"

#include <stdint.h>
#include <string.h>

enum { KEY_SIZE = 256, PARTS_MAX = 8 };

static bool is_one_of(const char *set, char c)
{
        return c != '\0' && strchr(set, c);
}

static size_t end_of_line(const struct value_text *t, size_t at)
{
        const char *end = at < t->n ? memchr(t->text + at, '\n', t->n - at) : NULL;

        return end ? (size_t)(end - t->text) : t->n;
}

static bool begins_comment(const struct value_text *t, size_t at)
{
        if (t->is_toml)
                return t->text[at] == '#';
        return t->text[at] == '/' && at + 1 < t->n && is_one_of("/*", t->text[at + 1]);
}

size_t value_text_skip_blank(const struct value_text *t, size_t at)
{
        while (at < t->n) {
                if (is_one_of(" \t\r\n", t->text[at])) {
                        at++;
                } else if (!begins_comment(t, at)) {
                        break;
                } else if (!t->is_toml && t->text[at + 1] == '*') {
                        const char *end = memmem(t->text + at + 2, t->n - at - 2, "*/", 2);
                        at = end ? (size_t)(end - t->text) + 2 : t->n;
                } else {
                        at = end_of_line(t, at);
                }
        }
        return at;
}

/* The quotes of a string that begins at `at`: 0, 1 or 3. */
static size_t quotes_at(const struct value_text *t, size_t at)
{
        char c = t->text[at];

        if (c != '"' && !(t->is_toml && c == '\''))
                return 0;
        return t->is_toml && at + 2 < t->n && t->text[at + 1] == c && t->text[at + 2] == c ? 3 : 1;
}

static size_t skip_string(const struct value_text *t, size_t at, size_t quotes)
{
        char c = t->text[at];

        for (at += quotes; at < t->n; at++) {
                if (c == '"' && t->text[at] == '\\') {
                        at++;
                } else if (t->text[at] == c) {
                        if (quotes == 1)
                                return at + 1;
                        if (at + 2 >= t->n || t->text[at + 1] != c || t->text[at + 2] != c)
                                continue;
                        /* One or two quotes may stand before those that end it. */
                        for (at += 3; at < t->n && t->text[at] == c;)
                                at++;
                        return at;
                }
        }
        return t->n;
}

size_t value_text_end(const struct value_text *t, size_t at)
{
        size_t depth = 0;

        while (at < t->n) {
                char c = t->text[at];
                size_t quotes = quotes_at(t, at);
                if (depth == 0 && (is_one_of(",}] \t\r\n", c) || begins_comment(t, at)))
                        break;
                if (quotes > 0) {
                        at = skip_string(t, at, quotes);
                } else if (begins_comment(t, at)) {
                        at = value_text_skip_blank(t, at);
                        continue;
                } else {
                        depth += c == '{' || c == '[';
                        depth -= c == '}' || c == ']';
                        at++;
                }
                if (depth == 0 && (quotes > 0 || c == '}' || c == ']'))
                        break;
        }
        return at < t->n ? at : t->n;
}

size_t value_text_items(const struct value_text *t, size_t at, struct span *items, size_t most)
{
        size_t n = 0;

        if (at >= t->n || t->text[at] != '[')
                return SIZE_MAX;
        for (at = value_text_skip_blank(t, at + 1); at < t->n && t->text[at] != ']';) {
                size_t end = value_text_end(t, at);
                if (n == most || end == at)
                        return SIZE_MAX;
                items[n++] = (struct span){at, end};
                at = value_text_skip_blank(t, end);
                if (at < t->n && t->text[at] == ',')
                        at = value_text_skip_blank(t, at + 1);
                else if (at >= t->n || t->text[at] != ']')
                        return SIZE_MAX;
        }
        return at < t->n ? n : SIZE_MAX;
}

/* ---- tables of TOML ---- */

static size_t skip_spaces(const struct value_text *t, size_t at)
{
        while (at < t->n && is_one_of(" \t", t->text[at]))
                at++;
        return at;
}

/* A dotted key: up to PARTS_MAX parts, of which each is bare or in quotes. Returns the number of parts, and moves *at behind it;
 * 0: it is not understood (a quoted part with an escape). */
static size_t read_key(const struct value_text *t, size_t *at, char parts[PARTS_MAX][KEY_SIZE])
{
        static const char bare[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

        for (size_t n = 0; n < PARTS_MAX; *at = skip_spaces(t, *at + 1)) {
                size_t from = *at, to = from;
                size_t quotes = from < t->n ? quotes_at(t, from) : 0;
                if (quotes > 0) {
                        *at = skip_string(t, from++, 1);
                        to = *at - 1;
                } else {
                        while (to < t->n && is_one_of(bare, t->text[to]))
                                to++;
                        *at = to;
                        if (to == from)
                                return 0;
                }
                if (to < from || to - from >= KEY_SIZE || memchr(t->text + from, '\\', to - from) ||
                    memchr(t->text + from, '\n', to - from))
                        return 0;
                memcpy(parts[n], t->text + from, to - from);
                parts[n++][to - from] = '\0';
                *at = skip_spaces(t, *at);
                if (*at >= t->n || t->text[*at] != '.')
                        return n;
        }
        return 0;
}

/* Whether the header at `at` is [table.name]. */
static bool is_header(const struct value_text *t, size_t at, const char *table, const char *name)
{
        char parts[PARTS_MAX][KEY_SIZE];

        at = skip_spaces(t, at + 1);
        return at < t->n && t->text[at] != '[' && read_key(t, &at, parts) == 2 && at < t->n &&
               t->text[at] == ']' && strcmp(parts[0], table) == 0 && strcmp(parts[1], name) == 0;
}

int value_text_toml(const struct value_text *t, const char *table, const char *name,
                    const char *first, const char *second, struct span *of_first,
                    struct span *of_second)
{
        char parts[PARTS_MAX][KEY_SIZE];
        bool inside = false;

        *of_first = *of_second = (struct span){};
        for (size_t at = 0; (at = value_text_skip_blank(t, at)) < t->n;) {
                if (t->text[at] == '[') {
                        inside = is_header(t, at, table, name);
                        at = end_of_line(t, at);
                        continue;
                }
                size_t n = read_key(t, &at, parts);
                if (at >= t->n || t->text[at] != '=')
                        return 0;
                at = skip_spaces(t, at + 1);
                size_t end = value_text_end(t, at);
                if (inside && n == 1 && strcmp(parts[0], first) == 0)
                        *of_first = (struct span){at, end};
                if (inside && n == 1 && strcmp(parts[0], second) == 0)
                        *of_second = (struct span){at, end};
                at = end_of_line(t, end);
        }
        return of_first->to > 0;
}
