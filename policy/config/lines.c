/*
 * Finds the line of a value.
 *
 * yyjson does not record the position of a value, but it stores all values of a document, including
 * keys, in one array in the order of the text. So the value with index i begins at the i-th token
 * of the text, if only tokens that begin a value are counted (not commas, colons, closing brackets
 * and comments). yyjson has already accepted the text, so it is not checked again.
 */
#include "policy/config/lines.h"

#include <stdbool.h>
#include <string.h>

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
