/* "publish": tools, prompts, resources and templates that Python in a sandbox implements. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/config/config-internal.h"
#include "policy/image.h"
#include "policy/published-name.h"

enum { SECOND = 1000, DAY = 24 * 3600 * SECOND, ENTRY_MAX = 256 * 1024, WHERE_MAX = 200 };

#define TOOL       (1u << PUBLISHED_TOOL)
#define PROMPT     (1u << PUBLISHED_PROMPT)
#define RESOURCE   (1u << PUBLISHED_RESOURCE)
#define TEMPLATE   (1u << PUBLISHED_TEMPLATE)
#define COMPLETING (PROMPT | TEMPLATE)
#define READABLE   (RESOURCE | TEMPLATE)
#define ALL        (TOOL | PROMPT | READABLE)

/* An entry while it is read. */
struct reading {
        struct config_reader *reader;
        struct config_published *into;
        yyjson_val *object;
        const char *where; /* "publish: tool \"x\": " */
};

static int wrong(struct reading *r, yyjson_val *at, const char *why)
{
        return config_wrong(r->reader, at, "%s%s", r->where, why);
}

/* The JSON text of a value, allocated. */
static int keep_json(struct reading *r, char **to, yyjson_val *value)
{
        size_t n = 0;

        free(take_ptr(*to));
        return json_write(value, to, &n) < 0 ? config_no_memory(r->reader) : 0;
}

/* ---- members that only Cloister reads ---- */

/* A string, or an array of lines. */
static int read_code(struct reading *r, yyjson_val *value)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(CONFIG_CODE_MAX + 1);
        yyjson_val *line;
        size_t i, n;
        int e = 0;

        if (yyjson_is_str(value))
                e = buffer_append(&text, yyjson_get_str(value), yyjson_get_len(value));
        else if (!yyjson_is_arr(value))
                return wrong(r, value, "code must be a string, or an array of its lines");
        yyjson_arr_foreach (value, i, n, line) {
                if (!yyjson_is_str(line))
                        return wrong(r, line, "each line of code must be a string");
                if (e >= 0)
                        e = buffer_append(&text, yyjson_get_str(line), yyjson_get_len(line));
                if (e >= 0)
                        e = buffer_append(&text, "\n", 1);
        }
        if (e == -EMSGSIZE || text.length > CONFIG_CODE_MAX)
                return wrong(r, value, "code of more than 256 KiB; put a library into an image");
        if (e < 0)
                return config_no_memory(r->reader);
        if (text.length > 0 && memchr(buffer_bytes(&text), '\0', text.length))
                return wrong(r, value, "code must not contain NUL characters");
        free(r->into->code);
        r->into->code = strndup(text.length > 0 ? buffer_bytes(&text) : "", text.length);
        return r->into->code ? 0 : config_no_memory(r->reader);
}

static int read_file(struct reading *r, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || *text == '\0' || strlen(text) > CONFIG_CODE_PATH_MAX)
                return wrong(r, value, "file must be the path of a Python file");
        return config_set_text(&r->into->file, text) < 0 ? config_no_memory(r->reader) : 0;
}

static int read_profile(struct reading *r, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || !image_name_valid(text))
                return wrong(r, value, "profile must be the name of a profile");
        if (config_set_text(&r->into->profile, text) < 0)
                return config_no_memory(r->reader);
        return config_refer(r->reader, CONFIG_PROFILE_OF_PUBLISHED, NULL, text, value);
}

static int read_timeout(struct reading *r, yyjson_val *value)
{
        static const struct config_key key = {
                "timeout", CONFIG_TIME, offsetof(struct config_published, timeout_ms), 100, DAY};

        return config_read_value(r->reader, &key, r->where, value, r->into);
}

static int read_hidden(struct reading *r, yyjson_val *value)
{
        if (!yyjson_is_bool(value))
                return wrong(r, value, "hidden must be true or false");
        r->into->hidden = yyjson_get_bool(value);
        return 0;
}

/* true: the code's complete(); else {"argument": ["value", …]}. */
static int read_complete(struct reading *r, yyjson_val *value)
{
        static const char why[] =
                "complete must be true (the code defines complete()), or {\"ARGUMENT\": [\"VALUE\", …]}";
        yyjson_val *name, *list, *item;
        size_t i, n, j, m;

        if (yyjson_is_true(value)) {
                r->into->completes = true;
                return 0;
        }
        if (!yyjson_is_obj(value))
                return wrong(r, value, why);
        yyjson_obj_foreach (value, i, n, name, list) {
                if (!yyjson_is_arr(list))
                        return wrong(r, name, why);
                yyjson_arr_foreach (list, j, m, item) {
                        if (!yyjson_is_str(item))
                                return wrong(r, item, why);
                }
        }
        return keep_json(r, &r->into->completions, value);
}

/* ---- members that clients see ---- */

static int check_text(struct reading *r, yyjson_val *value, const char *name)
{
        return yyjson_is_str(value)
                       ? 0
                       : config_wrong(r->reader, value, "%s%s must be a string", r->where, name);
}

/* Both eras know schemas of objects only. */
static int check_schema(struct reading *r, yyjson_val *value, const char *name)
{
        if (!yyjson_is_obj(value) || !yyjson_equals_str(yyjson_obj_get(value, "type"), "object"))
                return config_wrong(r->reader, value,
                                    "%s%s must be a JSON Schema with \"type\": \"object\"",
                                    r->where, name);
        return keep_json(r, name[0] == 'i' ? &r->into->input_schema : &r->into->output_schema,
                         value);
}

static int check_object(struct reading *r, yyjson_val *value, const char *name)
{
        return yyjson_is_obj(value)
                       ? 0
                       : config_wrong(r->reader, value, "%s%s must be an object", r->where, name);
}

/* Of a tool: {"taskSupport": …}. */
static int check_execution(struct reading *r, yyjson_val *value, const char *name)
{
        static const char *const supports[] = {
                [TASK_SUPPORT_OPTIONAL] = "optional",
                [TASK_SUPPORT_REQUIRED] = "required",
                [TASK_SUPPORT_FORBIDDEN] = "forbidden",
        };
        yyjson_val *given = yyjson_obj_get(value, "taskSupport");

        for (size_t i = 0; yyjson_obj_size(value) == 1 && i < ARRAY_SIZE(supports); i++) {
                if (!yyjson_equals_str(given, supports[i]))
                        continue;
                r->into->task_support = (enum config_task_support)i;
                return 0;
        }
        return config_wrong(
                r->reader, value,
                "%s%s must be {\"taskSupport\": \"optional\"}, or \"required\" or \"forbidden\" in its place",
                r->where, name);
}

static int check_icons(struct reading *r, yyjson_val *value, const char *name)
{
        return yyjson_is_arr(value)
                       ? 0
                       : config_wrong(r->reader, value, "%s%s must be an array", r->where, name);
}

static int check_mime_type(struct reading *r, yyjson_val *value, const char *name)
{
        const char *text = config_text(value);

        if (!text || !published_mime_type_valid(text))
                return wrong(r, value, "mimeType must be a MIME type such as text/plain");
        return config_set_text(&r->into->mime_type, text) < 0 ? config_no_memory(r->reader) : 0;
}

/* Of a prompt: [{"name", "description"?, "required"?}]. */
static int check_arguments(struct reading *r, yyjson_val *value, const char *name)
{
        yyjson_val *item, *required;
        size_t i, n;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > PUBLISHED_ARGUMENTS_MAX)
                return config_wrong(r->reader, value, "%sarguments must be an array of at most %d",
                                    r->where, PUBLISHED_ARGUMENTS_MAX);
        yyjson_arr_foreach (value, i, n, item) {
                required = yyjson_obj_get(item, "required");
                if (!yyjson_is_str(yyjson_obj_get(item, "name")) ||
                    (required && !yyjson_is_bool(required)))
                        return wrong(
                                r, item,
                                "each of arguments must be {\"name\": …, \"description\": …, \"required\": true or false}");
        }
        return keep_json(r, &r->into->arguments, value);
}

static const struct {
        const char *name;
        unsigned kinds;
        int (*read)(struct reading *r, yyjson_val *value);                    /* or */
        int (*check)(struct reading *r, yyjson_val *value, const char *name); /* of the entry */
} members[] = {
        {"name", READABLE, NULL, check_text},
        {"title", ALL, NULL, check_text},
        {"description", ALL, NULL, check_text},
        {"mimeType", READABLE, NULL, check_mime_type},
        {"arguments", PROMPT, NULL, check_arguments},
        {"inputSchema", TOOL, NULL, check_schema},
        {"outputSchema", TOOL, NULL, check_schema},
        {"annotations", TOOL | READABLE, NULL, check_object},
        {"execution", TOOL, NULL, check_execution},
        {"icons", ALL, NULL, check_icons},
        {"_meta", ALL, NULL, check_object},
        {"code", ALL, read_code, NULL},
        {"file", ALL, read_file, NULL},
        {"profile", ALL, read_profile, NULL},
        {"timeout", ALL, read_timeout, NULL},
        {"hidden", ALL, read_hidden, NULL},
        {"complete", COMPLETING, read_complete, NULL},
};

static const char *const member_names[] = {
        "name",   "title",       "description", "mimeType", "arguments", "inputSchema",
        "icons",  "annotations", "_meta",       "code",     "file",      "outputSchema",
        "hidden", "profile",     "timeout",     "complete", "execution", NULL,
};

static int read_member(struct reading *r, yyjson_val *key, yyjson_val *value)
{
        const char *name = yyjson_get_str(key);

        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                if (strcmp(members[i].name, name) != 0 ||
                    !(members[i].kinds & (1u << r->into->kind)))
                        continue;
                return members[i].read ? members[i].read(r, value)
                                       : members[i].check(r, value, name);
        }
        return config_warn_unknown(r->reader, r->where, key, member_names);
}

/* ---- the entry of a list ---- */

static const struct {
        const char *plural, *singular, *key; /* key: of the name in a list's entry */
} kinds[PUBLISHED_KINDS] = {
        [PUBLISHED_TOOL] = {"tools", "tool", "name"},
        [PUBLISHED_PROMPT] = {"prompts", "prompt", "name"},
        [PUBLISHED_RESOURCE] = {"resources", "resource", "uri"},
        [PUBLISHED_TEMPLATE] = {"templates", "template", "uriTemplate"},
};

const char *config_published_kind_name(enum config_published_kind kind)
{
        return kinds[kind].singular;
}

static void put_member(struct json_out *out, const char *name, yyjson_val *value)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(ENTRY_MAX);
        int r = json_append(&text, value);

        if (r < 0)
                json_out_fail(out, r);
        else
                json_out_raw(out, name, buffer_bytes(&text), text.length);
}

/* In the order of the table, whatever the order in the config: the same bytes each time. */
static int make_entry(struct reading *r)
{
        static const char none[] = "{\"type\":\"object\",\"properties\":{}}";
        static const char optional[] = "{\"taskSupport\":\"optional\"}";
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(ENTRY_MAX);
        struct json_out out = {.to = &text};
        const struct config_published *p = r->into;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, kinds[p->kind].key, p->name);
        if ((1u << p->kind) & READABLE && !yyjson_obj_get(r->object, "name"))
                json_out_text(&out, "name", p->name);
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                yyjson_val *value = yyjson_obj_get(r->object, members[i].name);
                if (value && members[i].check && members[i].kinds & (1u << p->kind))
                        put_member(&out, members[i].name, value);
        }
        if (p->kind == PUBLISHED_TOOL && !p->input_schema)
                json_out_raw(&out, "inputSchema", none, sizeof(none) - 1);
        if (p->kind == PUBLISHED_TOOL && !yyjson_obj_get(r->object, "execution"))
                json_out_raw(&out, "execution", optional, sizeof(optional) - 1);
        json_out_end(&out, '}');
        if (out.error == -EMSGSIZE)
                return wrong(r, r->object, "too large: clients would get more than 256 KiB");
        r->into->entry = out.error < 0 ? NULL : strndup(buffer_bytes(&text), text.length);
        return r->into->entry ? 0 : config_no_memory(r->reader);
}

static int check_whole(struct reading *r)
{
        struct config_published *p = r->into;
        bool described = yyjson_obj_get(r->object, "description");

        if (!p->code == !p->file)
                return wrong(r, r->object,
                             p->code ? "code and file exclude each other"
                                     : "code or file is missing");
        if (!described && (p->kind == PUBLISHED_TOOL || p->kind == PUBLISHED_PROMPT))
                return wrong(r, r->object, "description is missing");
        return 0;
}

static int check_name(struct config_reader *reader, enum config_published_kind kind,
                      yyjson_val *name)
{
        const char *text = config_text(name), *why = "it must be a text without NUL characters";

        if (text && kind == PUBLISHED_TEMPLATE)
                why = published_template_problem(text);
        else if (text && kind == PUBLISHED_RESOURCE)
                why = published_uri_problem(text);
        else if (text)
                why = published_name_problem(text);
        if (!why)
                return 1;
        return config_wrong(reader, name, "publish: %s \"%.80s\": %s", kinds[kind].singular,
                            text ? text : "", why);
}

void config_published_done(struct config_published *p)
{
        char **texts[] = {&p->name,          &p->entry,     &p->code,        &p->file,
                          &p->input_schema,  &p->arguments, &p->completions, &p->mime_type,
                          &p->output_schema, &p->profile};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                free(*texts[i]);
        *p = (struct config_published){};
}

static const struct config_published *find(const struct config *config,
                                           enum config_published_kind kind, const char *name)
{
        for (size_t i = 0; config && i < config->n_published; i++) {
                const struct config_published *p = &config->published[i];
                if (p->kind == kind && strcmp(p->name, name) == 0)
                        return p;
        }
        return NULL;
}

static int read_members(struct reading *r)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(r->object);
        yyjson_val *key;
        int error = 0;

        if (!yyjson_is_obj(r->object))
                return wrong(r, r->object, "must be an object");
        size_t before = r->reader->into->findings ? r->reader->into->findings->n_errors : 0;
        while (error >= 0 && (key = yyjson_obj_iter_next(&iter))) {
                error = config_check_twice(r->reader, r->where, r->object, key);
                if (error >= 0)
                        error = read_member(r, key, yyjson_obj_iter_get_val(key));
        }
        /* While mistakes are collected, one of them says enough about an entry. */
        bool good = !r->reader->into->findings || r->reader->into->findings->n_errors == before;
        if (error >= 0 && good)
                error = check_whole(r);
        if (error >= 0 && good && !!r->into->code != !!r->into->file)
                error = make_entry(r);
        return error;
}

static int read_one(struct config_reader *reader, enum config_published_kind kind, yyjson_val *name,
                    yyjson_val *object)
{
        struct config *into = reader->into;
        char where[WHERE_MAX];

        int r = check_name(reader, kind, name);
        if (r <= 0)
                return r;
        snprintf(where, sizeof(where), "publish: %s \"%.80s\": ", kinds[kind].singular,
                 yyjson_get_str(name));
        if (find(into, kind, yyjson_get_str(name)) ||
            find(reader->before, kind, yyjson_get_str(name)))
                return config_warn(reader, name, "%sthere is one already; this one is ignored",
                                   where);
        size_t others = reader->before ? reader->before->n_published : 0;
        if (into->n_published + others >= CONFIG_PUBLISHED_MAX)
                return config_wrong(reader, name, "publish: more than %d entries in all",
                                    CONFIG_PUBLISHED_MAX);
        struct config_published *grown = reallocarray(into->published, into->n_published + 1,
                                                      sizeof(*grown));
        if (!grown)
                return config_no_memory(reader);
        into->published = grown;
        struct config_published *p = &grown[into->n_published];
        *p = (struct config_published){.kind = kind, .name = strdup(yyjson_get_str(name))};
        struct reading reading = {reader, p, object, where};
        r = p->name ? read_members(&reading) : config_no_memory(reader);
        if (r >= 0 && p->entry)
                into->n_published++;
        else
                config_published_done(p);
        return r;
}

static int read_kind(struct config_reader *reader, enum config_published_kind kind,
                     yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        int r = 0;

        if (!yyjson_is_obj(object))
                return config_wrong(reader, object, "publish.%s must be an object: {\"%s\": {…}}",
                                    kinds[kind].plural,
                                    kind >= PUBLISHED_RESOURCE ? "URI" : "NAME");
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                r = config_check_twice(reader, "publish: ", object, name);
                if (r >= 0)
                        r = read_one(reader, kind, name, yyjson_obj_iter_get_val(name));
        }
        return r;
}

int config_read_publish(struct config_reader *reader, yyjson_val *publish)
{
        static const char *const names[] = {"tools", "prompts", "resources", "templates", NULL};
        yyjson_obj_iter iter = yyjson_obj_iter_with(publish);
        yyjson_val *key;
        int r = 0;

        if (!yyjson_is_obj(publish))
                return config_wrong(
                        reader, publish,
                        "publish must be an object: {\"tools\": …, \"prompts\": …, \"resources\": …, \"templates\": …}");
        while (r >= 0 && (key = yyjson_obj_iter_next(&iter))) {
                size_t kind = 0;

                while (kind < PUBLISHED_KINDS &&
                       strcmp(kinds[kind].plural, yyjson_get_str(key)) != 0)
                        kind++;
                r = config_check_twice(reader, "publish: ", publish, key);
                if (r >= 0 && kind < PUBLISHED_KINDS)
                        r = read_kind(reader, (enum config_published_kind)kind,
                                      yyjson_obj_iter_get_val(key));
                else if (r >= 0)
                        r = config_warn_unknown(reader, "publish: ", key, names);
        }
        return r;
}

int config_set_code(struct config *config, size_t index, const char *code, size_t n,
                    struct error *err)
{
        struct config_published *p = index < config->n_published ? &config->published[index] : NULL;

        if (!p || !p->file)
                return error_set(err, EPROTO, "code for no published entry");
        if (n > CONFIG_CODE_MAX || (n > 0 && memchr(code, '\0', n)))
                return error_set(
                        err, EINVAL,
                        "publish: %s \"%s\": %s: code of more than 256 KiB, or with NUL characters",
                        kinds[p->kind].singular, p->name, p->file);
        free(p->code);
        p->code = strndup(n > 0 ? code : "", n);
        return p->code ? 0 : error_errno(err, ENOMEM, "publish");
}
