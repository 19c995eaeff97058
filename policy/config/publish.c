/* "publish": tools, prompts, resources and templates that Python in a sandbox implements. */
#include "policy/config/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/config/run.h"
#include "policy/did-you-mean.h"
#include "policy/published-name.h"

enum { ENTRY_MAX = 256 * 1024, WHERE_MAX = 200 };

/* Stores the JSON text of a value. */
static int keep_json(struct config_reading *r, char **to, yyjson_val *value)
{
        size_t n = 0;

        free(take_ptr(*to));
        return json_write(value, to, &n) < 0 ? config_no_memory(r->reader) : 0;
}

/* ---- keys that only Cloister reads ---- */

/* A string, or an array of lines. */
int config_read_code(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_CODE_MAX + 1);
        yyjson_val *line;
        size_t i, n;
        int e = 0;

        if (yyjson_is_str(value))
                e = buffer_append(&text, yyjson_get_str(value), yyjson_get_len(value));
        else if (!yyjson_is_arr(value))
                return config_mistake(r, value, "code must be a string, or an array of its lines");
        yyjson_arr_foreach (value, i, n, line) {
                if (!yyjson_is_str(line))
                        return config_mistake(r, line, "each line of code must be a string");
                if (e >= 0)
                        e = buffer_append(&text, yyjson_get_str(line), yyjson_get_len(line));
                if (e >= 0)
                        e = buffer_append(&text, "\n", 1);
        }
        if (e == -EMSGSIZE || text.length > CONFIG_CODE_MAX)
                return config_mistake(r, value,
                                      "code of more than 256 KiB; put a library into an image");
        if (e < 0)
                return config_no_memory(r->reader);
        if (text.length > 0 && memchr(buffer_bytes(&text), '\0', text.length))
                return config_mistake(r, value, "code must not contain NUL characters");
        free(r->entry->code);
        r->entry->code = strndup(text.length > 0 ? buffer_bytes(&text) : "", text.length);
        return r->entry->code ? 0 : config_no_memory(r->reader);
}

int config_check_file(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        return strlen(r->entry->file) <= CONFIG_CODE_PATH_MAX
                       ? 0
                       : config_mistake(r, value, "file must be the path of a Python file");
}

/* true: the code's complete(); otherwise {"argument": ["value", …]}. */
int config_read_complete(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        static const char why[] =
                "complete must be true (the code defines complete()), or {\"ARGUMENT\": [\"VALUE\", …]}";
        yyjson_val *name, *list, *item;
        size_t i, n, j, m;

        if (yyjson_is_true(value)) {
                r->entry->completes = true;
                return 0;
        }
        if (!yyjson_is_obj(value))
                return config_mistake(r, value, "%s", why);
        yyjson_obj_foreach (value, i, n, name, list) {
                if (!yyjson_is_arr(list))
                        return config_mistake(r, name, "%s", why);
                yyjson_arr_foreach (list, j, m, item) {
                        if (!yyjson_is_str(item))
                                return config_mistake(r, item, "%s", why);
                }
        }
        return keep_json(r, config_member(key, r->entry), value);
}

/* ---- keys that clients see ---- */

/* A value that is passed to clients as it is: of one type. */
int config_check_entry(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        static const struct {
                enum config_code code;
                yyjson_type type;
                const char *name;
        } types[] = {{CODE_ENTRY_TEXT, YYJSON_TYPE_STR, "a string"},
                     {CODE_ENTRY_OBJECT, YYJSON_TYPE_OBJ, "an object"},
                     {CODE_ENTRY_ARRAY, YYJSON_TYPE_ARR, "an array"}};
        size_t i = 0;

        while (types[i].code != key->code)
                i++;
        if (yyjson_get_type(value) == types[i].type)
                return 0;
        return config_mistake(r, value, "%s must be %s", r->name, types[i].name);
}

/* Both eras know schemas of objects only. */
int config_read_schema(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_obj(value) || !yyjson_equals_str(yyjson_obj_get(value, "type"), "object"))
                return config_mistake(
                        r, value, "%s must be a JSON Schema with \"type\": \"object\"", r->name);
        return keep_json(r, config_member(key, r->entry), value);
}

/* Of a tool: {"taskSupport": …}. */
int config_read_execution(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_val *given = yyjson_obj_get(value, "taskSupport");

        for (uint64_t i = 0; yyjson_obj_size(value) == 1 && key->words[i]; i++) {
                if (!yyjson_equals_str(given, key->words[i]))
                        continue;
                config_set_number(key, r->entry, i);
                return 0;
        }
        return config_mistake(
                r, value,
                "%s must be {\"taskSupport\": \"optional\"}, or \"required\" or \"forbidden\" instead",
                r->name);
}

int config_check_mime_type(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        if (published_mime_type_valid(r->entry->mime_type))
                return 0;
        return config_mistake(r, value, "mimeType must be a MIME type such as text/plain");
}

/* Of a prompt: [{"name", "description"?, "required"?}]. */
int config_read_arguments(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_val *item, *required;
        size_t i, n;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > PUBLISHED_ARGUMENTS_MAX)
                return config_mistake(r, value, "arguments must be an array of at most %d",
                                      PUBLISHED_ARGUMENTS_MAX);
        yyjson_arr_foreach (value, i, n, item) {
                required = yyjson_obj_get(item, "required");
                if (!yyjson_is_str(yyjson_obj_get(item, "name")) ||
                    (required && !yyjson_is_bool(required)))
                        return config_mistake(
                                r, item,
                                "each of arguments must be {\"name\": …, \"description\": …, \"required\": true or false}");
        }
        return keep_json(r, config_member(key, r->entry), value);
}

/* ---- the entry of a list ---- */

static const struct {
        const char *plural, *key;
} kinds[PUBLISHED_KINDS] = {
        [PUBLISHED_TOOL] = {"tools", "name"},
        [PUBLISHED_PROMPT] = {"prompts", "name"},
        [PUBLISHED_RESOURCE] = {"resources", "uri"},
        [PUBLISHED_TEMPLATE] = {"templates", "uriTemplate"},
};

const char *config_published_plural(enum config_published_kind kind)
{
        return kinds[kind].plural;
}

/* In the order of the table, whatever the order in the config: the same bytes each time. */
static int make_entry(struct config_reading *r, yyjson_val *object)
{
        static const char none[] = "{\"type\":\"object\",\"properties\":{}}";
        static const char optional[] = "{\"taskSupport\":\"optional\"}";
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(ENTRY_MAX);
        struct json_out out = {.to = &text};
        struct config_published *p = r->entry;
        bool readable = p->kind == PUBLISHED_RESOURCE || p->kind == PUBLISHED_TEMPLATE;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, kinds[p->kind].key, p->name);
        if (readable && !yyjson_obj_get(object, "name"))
                json_out_text(&out, "name", p->name);
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_PUBLISHED, key));) {
                yyjson_val *value = yyjson_obj_get(object, key->name ? key->name : "");
                if (value && key->flags & CONFIG_LISTED &&
                    (!key->published || key->published & 1u << p->kind))
                        json_out_value(&out, key->name, value);
        }
        if (p->kind == PUBLISHED_TOOL && !p->input_schema)
                json_out_raw(&out, "inputSchema", none, sizeof(none) - 1);
        if (p->kind == PUBLISHED_TOOL && !yyjson_obj_get(object, "execution"))
                json_out_raw(&out, "execution", optional, sizeof(optional) - 1);
        json_out_end(&out, '}');
        if (out.error == -EMSGSIZE)
                return config_mistake(r, object, "too large: clients would get more than 256 KiB");
        p->entry = out.error < 0 ? NULL : strndup(buffer_bytes(&text), text.length);
        return p->entry ? 0 : config_no_memory(r->reader);
}

/* Its profile must be for its language. */
static int refer_to_profile(struct config_reading *r, yyjson_val *object)
{
        const struct config_published *p = r->entry;
        const char *language = language_names[LANGUAGE_PYTHON];

        if (!p->profile)
                return 0;
        if (p->run.guest == GUEST_PYODIDE)
                language = language_names[LANGUAGE_JAVASCRIPT];
        else if (p->run.language_argument)
                language = NULL;
        else if (p->run.language)
                language = p->run.language;
        return config_refer(r->reader, CONFIG_PROFILE_OF_PUBLISHED, language, p->profile,
                            yyjson_obj_get(object, "profile"));
}

static int check_whole(struct config_reading *r, yyjson_val *object)
{
        struct config_published *p = r->entry;
        bool described = yyjson_obj_get(object, "description");
        int n = !!p->code + !!p->file + !!p->run.code;

        if (n != 1)
                return config_mistake(
                        r, object,
                        n == 0        ? "code or file is missing"
                        : p->run.code ? "run excludes code and file: the code comes with the call"
                                      : "code and file exclude each other");
        if (!described && (p->kind == PUBLISHED_TOOL || p->kind == PUBLISHED_PROMPT))
                return config_mistake(r, object, "description is missing");
        int e = config_check_run_of_tool(r, object);
        return e < 0 ? e : refer_to_profile(r, object);
}

/* As another system, Cloister's own tool makes room for one of its name. */
static bool is_of_table(const struct config_reading *r, enum config_published_kind kind,
                        const char *name)
{
        return r->reader->layer == CONFIG_LAYER_TABLE && kind == PUBLISHED_TOOL &&
               strcmp(name, "run_python") == 0;
}

/* Returns 1 for a valid name. */
static int check_name(struct config_reading *r, enum config_published_kind kind, yyjson_val *name)
{
        const char *text = config_text(name), *why = "it must be a text without NUL characters";

        if (text && kind == PUBLISHED_TEMPLATE)
                why = published_template_problem(text);
        else if (text && kind == PUBLISHED_RESOURCE)
                why = published_uri_problem(text);
        else if (text)
                why = is_of_table(r, kind, text) ? NULL : published_name_problem(text);
        if (!why)
                return 1;
        return config_mistake(r, name, "publish: %s \"%.80s\": %s",
                              config_published_kind_name(kind), text ? text : "", why);
}

static bool is_taken(const struct config *config, enum config_published_kind kind, const char *name)
{
        for (size_t i = 0; config && i < config->n_published; i++)
                if (config->published[i].kind == kind && !config->published[i].below &&
                    strcmp(config->published[i].name, name) == 0)
                        return true;
        return false;
}

static int read_entry(struct config_reading *r, yyjson_val *object)
{
        if (!yyjson_is_obj(object))
                return config_mistake(r, object, "must be an object");
        int e = config_read_members(r, CONFIG_PUBLISHED, object);
        /* While mistakes are collected, one of them says enough about an entry. */
        if (e >= 0 && !r->wrong)
                e = check_whole(r, object);
        return e >= 0 && !r->wrong ? make_entry(r, object) : e;
}

static int read_one(struct config_reading *r, enum config_published_kind kind, yyjson_val *name,
                    yyjson_val *object)
{
        struct config *into = r->reader->into;
        const struct config *before = r->reader->before;
        char where[WHERE_MAX];

        int e = check_name(r, kind, name);
        if (e <= 0)
                return e;
        snprintf(where, sizeof(where), "publish: %s \"%.80s\": ", config_published_kind_name(kind),
                 yyjson_get_str(name));
        if (is_taken(into, kind, yyjson_get_str(name)) ||
            is_taken(before, kind, yyjson_get_str(name)))
                return config_warn(
                        r->reader, name,
                        "%sthere is an entry of this name before it; this one is ignored", where);
        if (into->n_published + (before ? before->n_published : 0) >= CONFIG_PUBLISHED_MAX)
                return config_mistake(r, name, "publish: more than %d entries in all",
                                      CONFIG_PUBLISHED_MAX);
        struct config_published *grown = reallocarray(into->published, into->n_published + 1,
                                                      sizeof(*grown));
        if (!grown)
                return config_no_memory(r->reader);
        into->published = grown;
        struct config_published *p = &grown[into->n_published];
        *p = (struct config_published){.kind = kind,
                                       .name = strdup(yyjson_get_str(name)),
                                       .below = r->reader->layer == CONFIG_LAYER_TABLE};
        struct config_reading inner = {.reader = r->reader,
                                       .codes = r->codes,
                                       .into = p,
                                       .entry = p,
                                       .where = where,
                                       .path = ""};
        p->listed = true;
        e = p->name ? read_entry(&inner, object) : config_no_memory(r->reader);
        if (e >= 0 && p->entry)
                into->n_published++;
        else
                config_done(CONFIG_PUBLISHED, p);
        return e;
}

static int read_kind(struct config_reading *r, enum config_published_kind kind, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(object))
                return config_mistake(r, object, "publish.%s must be an object: {\"%s\": {…}}",
                                      kinds[kind].plural,
                                      kind >= PUBLISHED_RESOURCE ? "URI" : "NAME");
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                e = config_check_twice(r->reader, "publish: ", object, name);
                if (e >= 0)
                        e = read_one(r, kind, name, yyjson_obj_iter_get_val(name));
        }
        return e;
}

int config_read_publish(struct config_reading *r, const struct config_key *key, yyjson_val *publish)
{
        const char *names[PUBLISHED_KINDS + 1] = {};
        yyjson_obj_iter iter = yyjson_obj_iter_with(publish);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(publish))
                return config_mistake(
                        r, publish,
                        "publish must be an object: {\"tools\": …, \"prompts\": …, \"resources\": …, \"templates\": …}");
        for (size_t i = 0; i < PUBLISHED_KINDS; i++)
                names[i] = kinds[i].plural;
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                size_t kind = 0;

                while (kind < PUBLISHED_KINDS &&
                       strcmp(kinds[kind].plural, yyjson_get_str(name)) != 0)
                        kind++;
                e = config_check_twice(r->reader, "publish: ", publish, name);
                if (e >= 0 && kind < PUBLISHED_KINDS)
                        e = read_kind(r, (enum config_published_kind)kind,
                                      yyjson_obj_iter_get_val(name));
                else if (e >= 0)
                        e = config_warn_unknown(r->reader, "publish: ", name,
                                                did_you_mean(yyjson_get_str(name), names));
        }
        return e;
}
