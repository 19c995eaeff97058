/* The keys of a config as JSON Schema. */
#include "policy/config/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/config/config.h"

static void put_json(struct json_out *out, const char *name, const char *json)
{
        json_out_raw(out, name, json, strlen(json));
}

/* A number of thousandths, with the fraction that it needs. */
static void put_thousandths(struct json_out *out, const char *name, uint64_t value)
{
        char text[32];
        int n = snprintf(text, sizeof(text), "%llu.%03u", (unsigned long long)value / 1000,
                         (unsigned)(value % 1000));

        while (text[n - 1] == '0')
                n--;
        json_out_raw(out, name, text, (size_t)(text[n - 1] == '.' ? n - 1 : n));
}

static void put_bytes(struct json_out *out, const char *name, uint64_t bytes)
{
        char text[32];

        if (bytes % 1024) {
                json_out_int(out, name, (int64_t)bytes);
                return;
        }
        config_print_bytes(text, sizeof(text), bytes);
        json_out_text(out, name, text);
}

void config_put_number(struct json_out *out, const char *name, const struct config_key *key,
                       uint64_t value)
{
        if (key->kind == CONFIG_BOOL)
                json_out_bool(out, name, value);
        else if (key->kind == CONFIG_WORDS)
                json_out_text(out, name, key->words[value]);
        else if (key->kind == CONFIG_BYTES)
                put_bytes(out, name, value);
        else if (key->kind == CONFIG_COUNT)
                json_out_int(out, name, (int64_t)value);
        else
                put_thousandths(out, name, value);
}

/* ---- one key ---- */

static void put_object(struct json_out *out, enum config_place place, unsigned published);

/* The bounds of a number, and the strings that may stand for it. */
static void put_range(struct json_out *out, const struct config_key *key)
{
        bool thousandths = key->kind == CONFIG_TIME || key->kind == CONFIG_CORES;
        bool string = key->kind == CONFIG_TIME || key->kind == CONFIG_BYTES;

        if (string) {
                json_out_begin(out, "anyOf", '[');
                json_out_begin(out, NULL, '{');
        }
        json_out_text(out, "type", thousandths ? "number" : "integer");
        if (thousandths) {
                put_thousandths(out, "minimum", key->least);
                put_thousandths(out, "maximum", key->most);
        } else {
                json_out_int(out, "minimum", (int64_t)key->least);
                json_out_int(out, "maximum", (int64_t)key->most);
        }
        if (!string)
                return;
        json_out_end(out, '}');
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", "string");
        json_out_text(out, "pattern",
                      key->kind == CONFIG_TIME
                              ? "^([0-9]+[.]?[0-9]*|[.][0-9]+) *([mM]?[sS]|[mM]([iI][nN])?|[hH])?$"
                              : "^([0-9]+[.]?[0-9]*|[.][0-9]+) *([kKmMgGtT]([iI]?[bB])?|[bB])?$");
        json_out_end(out, '}');
        json_out_end(out, ']');
}

static void put_words(struct json_out *out, const struct config_key *key)
{
        json_out_begin(out, "enum", '[');
        for (size_t i = 0; key->words[i]; i++)
                json_out_text(out, NULL, key->words[i]);
        json_out_end(out, ']');
}

static void put_text(struct json_out *out, const struct config_key *key)
{
        static const char *const patterns[] = {
                [CONFIG_IMAGE] = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$",
                [CONFIG_PATH] = "^/",
                [CONFIG_USER] = "^[A-Za-z0-9_.$][A-Za-z0-9_.$-]{0,31}$",
                [CONFIG_VISIBLE] = "^[!-~]{1,2048}$",
        };

        json_out_text(out, "type", "string");
        if (key->kind == CONFIG_WORD)
                json_out_int(out, "minLength", 1);
        else if (key->kind != CONFIG_TEXT && !(key->schema && strstr(key->schema, "\"pattern\"")))
                json_out_text(out, "pattern", patterns[key->kind]);
}

static void put_list(struct json_out *out, const struct config_key *key)
{
        json_out_text(out, "type", "array");
        json_out_int(out, "maxItems", (int64_t)key->most);
        if (key->kind == CONFIG_ARRAY) {
                json_out_begin(out, "items", '{');
                put_object(out, key->inside, 0);
                json_out_end(out, '}');
        } else if (!key->schema || !strstr(key->schema, "\"items\"")) {
                put_json(out, "items", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}");
        }
}

/* The members of key->schema, or of NULL. */
static void put_members(struct json_out *out, const char *members)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(4096);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};
        size_t i, n;
        yyjson_val *name, *value;

        int r = buffer_printf(&text, "{%s}", members ? members : "");
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &doc, &ignored);
        if (r < 0)
                json_out_fail(out, r);
        yyjson_obj_foreach (yyjson_doc_get_root(doc), i, n, name, value) {
                json_out_value(out, yyjson_get_str(name), value);
        }
}

static bool begins_with(const char *text, const char *begin)
{
        return text && strncmp(text, begin, strlen(begin)) == 0;
}

/* The type of a key: the columns of its row, then key->schema. A schema that begins with "type" or "anyOf"
 * replaces what the columns give. */
static void put_type(struct json_out *out, const struct config_key *key)
{
        bool either = key->code == CODE_NETWORK || key->code == CODE_POOL;

        if (either) {
                json_out_begin(out, "anyOf", '[');
                json_out_begin(out, NULL, '{');
                put_members(out, key->schema);
                json_out_end(out, '}');
                json_out_begin(out, NULL, '{');
                put_object(out, key->inside, 0);
                json_out_end(out, '}');
                json_out_end(out, ']');
                return;
        }
        if (!begins_with(key->schema, "\"type\"") && !begins_with(key->schema, "\"anyOf\"")) {
                if (key->kind == CONFIG_BOOL)
                        json_out_text(out, "type", "boolean");
                else if (key->kind == CONFIG_WORDS)
                        put_words(out, key);
                else if (config_is_number(key))
                        put_range(out, key);
                else if (config_is_text(key))
                        put_text(out, key);
                else if (key->kind == CONFIG_LIST || key->kind == CONFIG_ARRAY)
                        put_list(out, key);
                else if (key->kind == CONFIG_OBJECT)
                        put_object(out, key->inside, 0);
        }
        put_members(out, key->schema);
}

static void put_key(struct json_out *out, const struct config_key *key)
{
        json_out_begin(out, key->name, '{');
        json_out_text(out, "description", key->text);
        put_type(out, key);
        if (key->fallback)
                json_out_text(out, "x-default", key->fallback);
        else if (config_is_number(key) && !(key->code == CODE_EXECUTION) &&
                 (key->initial > 0 || key->least == 0))
                config_put_number(out, "default", key, key->initial);
        json_out_end(out, '}');
}

static void put_alias(struct json_out *out, const struct config_alias *alias)
{
        enum config_form form;
        const struct config_key *key = config_find_key(alias->place, alias->name, &form);

        if (!key)
                return;
        json_out_begin(out, alias->name, '{');
        if (form == CONFIG_BEARER)
                json_out_text(out, "type", "string");
        else if (form == CONFIG_VARIABLES && key->code == CODE_ENV)
                json_out_text(out, "type", "array");
        else if (form == CONFIG_MILLISECONDS)
                put_json(out, "type", "[\"number\",\"string\"]");
        else
                put_type(out, key);
        json_out_end(out, '}');
}

/* The members of the schema of an object. published: the bit of an entry's kind. */
static void put_object(struct json_out *out, enum config_place place, unsigned published)
{
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        for (const struct config_key *key = NULL; (key = config_next_key(place, key));)
                if (key->name && (!key->published || key->published & published))
                        put_key(out, key);
        for (const struct config_alias *a = NULL; (a = config_next_alias(place, a));)
                put_alias(out, a);
        json_out_end(out, '}');
        json_out_begin(out, "required", '[');
        for (const struct config_key *key = NULL; (key = config_next_key(place, key));)
                if (key->flags & CONFIG_REQUIRED)
                        json_out_text(out, NULL, key->name);
        if (published & (1u << PUBLISHED_TOOL | 1u << PUBLISHED_PROMPT))
                json_out_text(out, NULL, "description");
        json_out_end(out, ']');
}

void config_schema(struct json_out *out)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "$schema", "https://json-schema.org/draft/2020-12/schema");
        json_out_text(out, "title", "The config of Cloister");
        put_object(out, CONFIG_TOP, 0);
        json_out_begin(out, "$defs", '{');
        json_out_begin(out, "server", '{');
        put_object(out, CONFIG_SERVER, 0);
        put_json(
                out, "anyOf",
                "[{\"required\":[\"command\"]},{\"required\":[\"url\"]},{\"required\":[\"httpUrl\"]},{\"required\":[\"serverUrl\"]}]");
        put_json(out, "not", "{\"required\":[\"command\",\"url\"]}");
        json_out_end(out, '}');
        json_out_begin(out, "profile", '{');
        put_object(out, CONFIG_PROFILE, 0);
        json_out_end(out, '}');
        for (unsigned kind = 0; kind < PUBLISHED_KINDS; kind++) {
                json_out_begin(out, config_published_kind_name((enum config_published_kind)kind),
                               '{');
                put_object(out, CONFIG_PUBLISHED, 1u << kind);
                put_json(out, "oneOf", "[{\"required\":[\"code\"]},{\"required\":[\"file\"]}]");
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
        json_out_end(out, '}');
}
