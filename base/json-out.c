/* Writes JSON in order. */
#include "base/json-out.h"

#include <string.h>

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

/* Writes the comma and the key. Returns whether the value may follow. */
static bool put_key(struct json_out *out, const char *key)
{
        int r = out->error;

        if (r == 0 && out->more)
                r = buffer_append(out->to, ",", 1);
        if (r == 0 && key)
                r = buffer_append(out->to, "\"", 1);
        if (r == 0 && key)
                r = buffer_append_text(out->to, key);
        if (r == 0 && key)
                r = buffer_append(out->to, "\":", 2);
        out->error = r;
        return r == 0;
}

void json_out_raw(struct json_out *out, const char *key, const char *json, size_t n)
{
        if (put_key(out, key))
                note(out, buffer_append(out->to, json, n));
}

void json_out_begin(struct json_out *out, const char *key, char bracket)
{
        json_out_raw(out, key, &bracket, 1);
        out->more = false;
}

void json_out_end(struct json_out *out, char bracket)
{
        out->more = false;
        json_out_raw(out, NULL, &bracket, 1);
}

void json_out_string(struct json_out *out, const char *key, const char *text, size_t n)
{
        if (put_key(out, key))
                note(out, json_append_string(out->to, text, n));
}

void json_out_text(struct json_out *out, const char *key, const char *text)
{
        json_out_string(out, key, text, strlen(text));
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
