/* Writes JSON in order. */
#include "base/json-out.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"

void json_out_fail(struct json_out *out, int error)
{
        if (out->error == 0)
                out->error = error;
}

static void note(struct json_out *out, int r)
{
        if (r < 0)
                json_out_fail(out, r);
        out->more = true;
}

static int append_line(struct json_out *out)
{
        int r = buffer_append(out->to, "\n", 1);

        for (unsigned i = 0; r == 0 && i < out->depth; i++)
                r = buffer_append(out->to, "  ", 2);
        return r;
}

/* Writes the comma, the line break and the key. Returns whether the value may follow. */
static bool put_key(struct json_out *out, const char *key)
{
        int r = out->error;

        if (out->keyed) {
                out->keyed = false;
                return r == 0;
        }
        if (r == 0 && out->more)
                r = buffer_append(out->to, ",", 1);
        if (r == 0 && out->depth > 0)
                r = append_line(out);
        if (r == 0 && key)
                r = buffer_append(out->to, "\"", 1);
        if (r == 0 && key)
                r = buffer_append_text(out->to, key);
        if (r == 0 && key)
                r = buffer_append_text(out->to, out->indent ? "\": " : "\":");
        out->error = r;
        return r == 0;
}

void json_out_key(struct json_out *out, const char *key, size_t n)
{
        int r;

        if (!put_key(out, NULL))
                return;
        r = json_append_string(out->to, key, n);
        if (r == 0)
                r = buffer_append_text(out->to, out->indent ? ": " : ":");
        note(out, r);
        out->keyed = true;
}

void json_out_begin(struct json_out *out, const char *key, char bracket)
{
        if (put_key(out, key))
                note(out, buffer_append(out->to, &bracket, 1));
        out->depth += out->indent;
        out->more = false;
}

void json_out_end(struct json_out *out, char bracket)
{
        int r = out->error;

        out->depth -= out->indent;
        if (r == 0 && out->more && out->indent)
                r = append_line(out);
        if (r == 0)
                r = buffer_append(out->to, &bracket, 1);
        note(out, r);
}

/* Whether the bracket at the front is closed at once. */
static bool is_empty(const char *json, size_t n)
{
        size_t at = 1;

        while (at < n && strchr(" \t\r\n", json[at]))
                at++;
        return at < n && (json[at] == '}' || json[at] == ']');
}

/* The length of the string at the front, with both quotes. */
static size_t string_length(const char *json, size_t n)
{
        size_t at = 1;

        while (at < n && json[at] != '"')
                at += json[at] == '\\' ? 2 : 1;
        return at < n ? at + 1 : n;
}

/* Appends the token at the front, and the line break that follows or precedes it. Returns its length, or
 * negative errno. `empty` is true from a bracket to its end that follows at once. */
static ssize_t append_token(struct json_out *out, const char *json, size_t n, bool *empty)
{
        size_t length = *json == '"' ? string_length(json, n) : 1;
        int r = 0;

        if (strchr(" \t\r\n", *json))
                return 1;
        if (*json == '}' || *json == ']') {
                out->depth--;
                r = *empty ? 0 : append_line(out);
                *empty = false;
        }
        if (r == 0)
                r = buffer_append(out->to, json, length);
        if (*json == '{' || *json == '[') {
                out->depth++;
                *empty = is_empty(json, n);
        }
        if (r == 0 && (*json == ',' || ((*json == '{' || *json == '[') && !*empty)))
                r = append_line(out);
        else if (r == 0 && *json == ':')
                r = buffer_append(out->to, " ", 1);
        return r < 0 ? r : (ssize_t)length;
}

void json_out_raw(struct json_out *out, const char *key, const char *json, size_t n)
{
        bool empty = false;
        ssize_t r = 0;

        if (!put_key(out, key))
                return;
        if (!out->indent)
                r = buffer_append(out->to, json, n);
        for (size_t at = 0; r >= 0 && out->indent && at < n; at += (size_t)r) {
                r = append_token(out, json + at, n - at, &empty);
                if (r < 0)
                        break;
        }
        note(out, (int)r);
}

void json_out_value(struct json_out *out, const char *key, yyjson_val *value)
{
        char *text = NULL;
        size_t n = 0;
        int r = out->error;

        if (r == 0 && !out->indent) {
                if (put_key(out, key))
                        note(out, json_append(out->to, value));
                return;
        }
        if (r == 0)
                r = json_write(value, &text, &n);
        if (r == 0)
                json_out_raw(out, key, text, n);
        else
                note(out, r);
        free(text);
}

void json_out_string(struct json_out *out, const char *key, const char *text, size_t n)
{
        if (put_key(out, key))
                note(out, json_append_string(out->to, text, n));
}

void json_out_bytes(struct json_out *out, const char *key, const char *bytes, size_t n)
{
        if (put_key(out, key))
                note(out, json_append_bytes(out->to, bytes, n));
}

void json_out_text(struct json_out *out, const char *key, const char *text)
{
        json_out_string(out, key, text, strlen(text));
}

void json_out_base64(struct json_out *out, const char *key, const void *bytes, size_t n)
{
        int r;

        if (!put_key(out, key))
                return;
        r = buffer_append(out->to, "\"", 1);
        if (r == 0)
                r = base64_append(out->to, bytes, n);
        if (r == 0)
                r = buffer_append(out->to, "\"", 1);
        note(out, r);
}

void json_out_int(struct json_out *out, const char *key, int64_t number)
{
        if (put_key(out, key))
                note(out, buffer_append_number(out->to, number));
}

void json_out_bool(struct json_out *out, const char *key, bool value)
{
        json_out_raw(out, key, value ? "true" : "false", value ? 4 : 5);
}
