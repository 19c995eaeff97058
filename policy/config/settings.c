/* Applies the options and variables of another system to a config. */
#include "policy/config/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/json.h"
#include "policy/did-you-mean.h"
#include "policy/quantity.h"

enum {
        KEYS_MAX = 128,
        SHOWN_MAX = 80,
        TEXT_MAX = 500,
        NOTES_MAX = 64,
        JSON_MAX = 8 * SETTINGS_VALUE_MAX, /* of one value: a byte may be an escape */
        VALUES_JSON_MAX = 2 * CONFIG_SETTINGS_MAX * JSON_MAX, /* of the options and the variables */
};

/* A value as JSON. */
struct value {
        struct buffer json;
        struct buffer names; /* of an object of variables: the array of their names */
        double number;       /* NAN: it is not a number */
        const char *word;    /* of a boolean: "true" or "false"; otherwise NULL */
};

/* The state of settings_apply(). */
struct applying {
        const struct config_as *as;
        const struct settings_given *given;
        struct json_tree *table;
        struct buffer values_json, notes_json; /* of the object "as" in the file of the settings */
        struct json_out values, notes;
        double numbers[2 * CONFIG_SETTINGS_MAX]; /* of applied settings; NAN: not a number */
        size_t n_notes;
        char *set[KEYS_MAX];                   /* keys that an earlier setting has set */
        char *places[2 * CONFIG_SETTINGS_MAX]; /* of applied settings: keep_place() */
        size_t n_set;
        struct settings_result *result;
        struct error refusal; /* the first */
        int status;
};

/* One setting while it is read. */
struct reading {
        const struct config_setting *s;
        const char *from, *text; /* the name that was given, and its value; NULL: not given */
        bool out_of_range, table_is_wrong;
        struct error *err;
};

/* ---- what is given ---- */

static const struct config_setting *find(const struct config_as *as, const char *name)
{
        for (size_t i = 0; i < as->n_settings; i++)
                if (strcmp(as->settings[i].name, name) == 0)
                        return &as->settings[i];
        return NULL;
}

/* The row that describes a name: itself, or the one that it equals. */
static const struct config_setting *described_by(const struct config_as *as, const char *name)
{
        const struct config_setting *s = find(as, name);

        return s && s->same_as ? find(as, s->same_as) : s;
}

const char *settings_nearest(const struct config_as *as, const char *name)
{
        const char *names[2 * CONFIG_SETTINGS_MAX + 1];
        size_t n = 0;

        for (size_t i = 0; i < as->n_settings; i++)
                if (as->settings[i].name[0] == '-')
                        names[n++] = as->settings[i].name;
        names[n] = NULL;
        return did_you_mean(name, names);
}

int settings_take_option(const struct config_as *as, int argc, char *const *argv,
                         struct settings_given *to, struct error *err)
{
        size_t length = strcspn(argv[0], "=");
        char name[CONFIG_CODE_PATH_MAX];

        if (strncmp(argv[0], "--", 2) != 0 || length >= sizeof(name))
                return 0;
        memcpy(name, argv[0], length);
        name[length] = '\0';
        const struct config_setting *s = find(as, name), *row = described_by(as, name);
        if (!s || !row)
                return 0;
        const char *value = argv[0][length] == '=' ? argv[0] + length + 1 : NULL;
        int used = 1;
        if (row->type == SETTING_FLAG && value)
                return error_set(err, EINVAL, "%s takes no value", s->name);
        if (row->type != SETTING_FLAG && !value) {
                if (argc < 2)
                        return error_set(err, EINVAL, "%s needs a value", s->name);
                value = argv[1];
                used = 2;
        }
        if (to->n == SETTINGS_GIVEN_MAX)
                return error_set(err, E2BIG, "%s: more than %d options", s->name,
                                 SETTINGS_GIVEN_MAX);
        to->names[to->n] = s->name;
        to->values[to->n++] = value;
        return used;
}

/* The value of a name: of the last option, or of a variable that is not empty. */
static bool value_of(const struct settings_given *given, const char *name, const char **ret)
{
        if (name[0] != '-') {
                *ret = given->variable(name);
                return *ret && **ret;
        }
        for (size_t i = given->n; i > 0; i--) {
                if (strcmp(given->names[i - 1], name) != 0)
                        continue;
                *ret = given->values[i - 1];
                return true;
        }
        return false;
}

/* Finds the value of a setting under its name and the names that equal it, in the order of the table. */
static bool find_given(const struct applying *a, const struct config_setting *s, const char **from,
                       const char **text)
{
        *from = s->name;
        *text = NULL;
        if (value_of(a->given, s->name, text))
                return true;
        for (size_t i = 0; i < a->as->n_settings; i++) {
                const struct config_setting *other = &a->as->settings[i];
                if (!other->same_as || strcmp(other->same_as, s->name) != 0)
                        continue;
                *from = other->name;
                if (value_of(a->given, other->name, text))
                        return true;
        }
        *from = s->name;
        *text = NULL;
        return false;
}

/* ---- values ---- */

/* A wrong value. A secret is not shown. */
static int wrong(struct reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct reading *r, const char *format, ...)
{
        char why[TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(why, sizeof(why), format, args);
        va_end(args);
        if (r->s->secret || r->s->type == SETTING_SERVERS || !r->text)
                return error_set(r->err, EINVAL, "%s: %s", r->from, why);
        return error_set(r->err, EINVAL, "%s %.*s%s: %s", r->from, SHOWN_MAX, r->text,
                         strlen(r->text) > SHOWN_MAX ? "…" : "", why);
}

static int out_of_range(struct reading *r, double most)
{
        r->out_of_range = true;
        if (most >= INT32_MAX)
                return wrong(r, "must be at least %u", r->s->least);
        return wrong(r, "must be from %u to %.0f", r->s->least, most);
}

/* The bound that another setting gives, or that of the row. */
static double upper_bound(const struct applying *a, const struct config_setting *s)
{
        const struct config_setting *other = s->at_most ? find(a->as, s->at_most) : NULL;
        double number = other ? a->numbers[other - a->as->settings] : NAN;

        return isnan(number) ? s->most : number;
}

/* The shortest text that reads back the same. */
static void put_real(struct value *value, double number)
{
        char text[32];
        int digits = 15;

        do
                snprintf(text, sizeof(text), "%.*g", digits++, number);
        while (digits <= 17 && strtod(text, NULL) != number);
        buffer_append_text(&value->json, text);
        value->number = number;
}

static bool read_number(const struct applying *a, struct reading *r, struct value *value)
{
        bool whole = r->s->type == SETTING_INTEGER;
        double most = upper_bound(a, r->s);
        char *end = NULL;

        errno = 0;
        double number = whole ? (double)strtoll(r->text, &end, 10) : strtod(r->text, &end);
        end += strspn(end, " \t\n");
        if (end == r->text || *end || !isfinite(number) ||
            strpbrk(r->text, whole ? "xX" : "xXnN")) {
                wrong(r, whole ? "must be a whole number" : "must be a number");
                return false;
        }
        if (errno == ERANGE || number < r->s->least || number > most) {
                out_of_range(r, most);
                return false;
        }
        if (whole)
                buffer_printf(&value->json, "%lld", (long long)number);
        else
                put_real(value, number);
        value->number = number;
        return true;
}

static void put_boolean(struct value *value, bool is_true)
{
        value->word = is_true ? "true" : "false";
        buffer_append_text(&value->json, value->word);
}

static bool read_boolean(struct reading *r, struct value *value)
{
        static const char *const words[] = {"false", "0", "no",  "off", "n", "f",
                                            "true",  "1", "yes", "on",  "y", "t"};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strcasecmp(r->text, words[i]) == 0) {
                        put_boolean(value, i >= ARRAY_SIZE(words) / 2);
                        return true;
                }
        wrong(r, "must be true or false");
        return false;
}

/* "512m", "1g", "1gb", a number of bytes. */
static bool read_bytes(struct reading *r, struct value *value)
{
        uint64_t bytes = 0;

        if (quantity_bytes_of(r->text, &bytes) < 0) {
                wrong(r, "must be a size such as 512m or 1g");
                return false;
        }
        if (bytes < r->s->least) {
                r->out_of_range = true;
                wrong(r, "must be at least %u MiB", r->s->least >> 20);
                return false;
        }
        buffer_printf(&value->json, "%" PRIu64, bytes);
        value->number = (double)bytes;
        return true;
}

/* The names in a list: letters, digits and _. Empty ones are left out. */
static bool is_variable(const char *name, size_t n)
{
        return n > 0 && n < CONFIG_CODE_PATH_MAX && (name[0] < '0' || name[0] > '9') &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") >= n;
}

static void add_note(struct applying *a, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static void add_note(struct applying *a, const char *format, ...)
{
        char text[TEXT_MAX];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        if (a->n_notes++ < NOTES_MAX)
                json_out_text(&a->notes, NULL, text);
}

/* Whether an array of names has this one, which needs no escapes. */
static bool has_name(const struct buffer *names, const char *name)
{
        char quoted[CONFIG_CODE_PATH_MAX + 2];
        int n = snprintf(quoted, sizeof(quoted), "\"%s\"", name);

        return memmem(buffer_bytes(names), names->length, quoted, (size_t)n) != NULL;
}

/* Adds a name to the line for the log. */
static void add_passed(char passed[TEXT_MAX / 2], const char *name)
{
        size_t n = strlen(passed);

        snprintf(passed + n, TEXT_MAX / 2 - n, "%s%s", n > 0 ? ", " : "", name);
}

/* A list of names: an array, or for variables an object with their values. */
static bool read_names(struct applying *a, struct reading *r, struct value *value)
{
        bool variables = r->s->type == SETTING_VARIABLES;
        struct json_out names = {.to = variables ? &value->names : &value->json};
        struct json_out object = {.to = &value->json};
        char passed[TEXT_MAX / 2] = "";

        json_out_begin(&names, NULL, '[');
        if (variables)
                json_out_begin(&object, NULL, '{');
        for (const char *p = r->text; *p;) {
                char name[CONFIG_CODE_PATH_MAX];
                size_t n = strcspn(p, ","), lead = strspn(p, " ");
                size_t length = n > lead ? n - lead : 0;

                while (length > 0 && p[lead + length - 1] == ' ')
                        length--;
                if (variables && length > 0 && !is_variable(p + lead, length)) {
                        wrong(r, "must be names of variables, separated by commas");
                        return false;
                }
                snprintf(name, sizeof(name), "%.*s", (int)length, p + lead);
                const char *passes = variables && length > 0 ? a->given->variable(name) : NULL;
                if (!variables && length > 0)
                        json_out_text(&names, NULL, name);
                else if (passes && !has_name(&value->names, name)) {
                        json_out_text(&names, NULL, name);
                        json_out_text(&object, name, passes);
                        add_passed(passed, name);
                } else if (variables && length > 0 && !passes)
                        add_note(a, "%s: the variable %s is not set, and is not set inside",
                                 r->from, name);
                p += n + (p[n] == ',');
        }
        json_out_end(&names, ']');
        if (variables)
                json_out_end(&object, '}');
        if (variables && *passed)
                add_note(a, "%s: code gets these variables: %s", r->from, passed);
        return true;
}

/* A server without its name. */
static void put_server(struct json_out *out, yyjson_val *server)
{
        yyjson_val *key, *member;
        size_t i, n;

        json_out_begin(out, NULL, '{');
        yyjson_obj_foreach (server, i, n, key, member) {
                if (yyjson_equals_str(key, "name"))
                        continue;
                json_out_key(out, yyjson_get_str(key), yyjson_get_len(key));
                json_out_value(out, NULL, member);
        }
        json_out_end(out, '}');
}

/* A JSON array of servers, each with its name, as an object by name. */
static bool read_servers(struct reading *r, struct value *value)
{
        struct json_out out = {.to = &value->json};
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error why = {};
        size_t i, n;
        yyjson_val *item;

        if (json_parse(r->text, strlen(r->text), &doc, &why) < 0) {
                wrong(r, "is not JSON: %s", why.text);
                return false;
        }
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (!yyjson_is_arr(root) || yyjson_arr_size(root) > CONFIG_SERVERS_MAX) {
                wrong(r, "must be a JSON array of at most %d servers", CONFIG_SERVERS_MAX);
                return false;
        }
        json_out_begin(&out, NULL, '{');
        yyjson_arr_foreach (root, i, n, item) {
                size_t length = 0;
                const char *name = json_string(item, "name", &length);
                if (!name) {
                        wrong(r, "item %zu must be an object with a name", i + 1);
                        return false;
                }
                json_out_key(&out, name, length);
                put_server(&out, item);
        }
        json_out_end(&out, '}');
        return true;
}

static void put_text(struct value *value, const char *text)
{
        json_append_string(&value->json, text, strlen(text));
}

static bool read_text(const struct applying *a, const struct reading *r, struct value *value)
{
        const char *home = a->given->home;
        char path[4096];

        if (r->s->type == SETTING_PATH && r->text[0] == '~' && home &&
            (r->text[1] == '/' || r->text[1] == '\0') &&
            snprintf(path, sizeof(path), "%s%s", home, r->text + 1) < (int)sizeof(path))
                put_text(value, path);
        else
                put_text(value, r->text);
        return true;
}

static bool is_choice(const struct config_setting *s, const char *text)
{
        for (size_t i = 0; s->choices && s->choices[i]; i++)
                if (strcmp(s->choices[i], text) == 0)
                        return true;
        return !s->choices;
}

static void list_choices(const struct config_setting *s, struct reading *r)
{
        char all[TEXT_MAX] = "";
        size_t n = 0;

        for (size_t i = 0; s->choices[i] && n < sizeof(all); i++)
                n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i > 0 ? ", " : "",
                                      s->choices[i]);
        wrong(r, "must be one of %s", all);
}

/* The value of a text. False: it is wrong, and the error is set. */
static bool read_value(struct applying *a, struct reading *r, struct value *value)
{
        size_t n = r->text ? strlen(r->text) : 0;

        if (r->s->type == SETTING_FLAG) {
                put_boolean(value, true);
                return true;
        }
        if (n > SETTINGS_VALUE_MAX) {
                error_set(r->err, EINVAL, "%s: longer than %d KiB", r->from,
                          SETTINGS_VALUE_MAX / 1024);
                return false;
        }
        for (const char *c = r->text; *c && r->s->type != SETTING_SERVERS; c++) {
                if ((unsigned char)*c >= 0x20 && *c != 0x7f)
                        continue;
                error_set(r->err, EINVAL, "%s: has control characters", r->from);
                return false;
        }
        if (!is_choice(r->s, r->text)) {
                list_choices(r->s, r);
                return false;
        }
        switch (r->s->type) {
        case SETTING_INTEGER:
        case SETTING_NUMBER:
                return read_number(a, r, value);
        case SETTING_BOOLEAN:
                return read_boolean(r, value);
        case SETTING_NAMES:
        case SETTING_VARIABLES:
                return read_names(a, r, value);
        case SETTING_BYTES:
                return read_bytes(r, value);
        case SETTING_SERVERS:
                return read_servers(r, value);
        default:
                return read_text(a, r, value);
        }
}

/* ---- effects ---- */

/* The text of `notes` or `refuse` for a value; NULL: none. The caller frees *doc. */
static const char *text_for(const char *json, const char *text, yyjson_doc **doc)
{
        if (!json || json_parse(json, strlen(json), doc, NULL) < 0)
                return NULL;
        yyjson_val *root = yyjson_doc_get_root(*doc);
        if (yyjson_is_str(root))
                return yyjson_get_str(root);
        return json_string(root, text ? text : "true", NULL);
}

/* The text by which `notes`, `refuse` and `values` name a value. */
static const char *word_of(const struct reading *r, const struct value *value)
{
        return value->word ? value->word : r->text;
}

/* The JSON that a row's `values` gives for a text, or that of the value itself. */
static int mapped(const struct reading *r, const struct value *value, struct buffer *to)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *other = NULL;

        if (r->s->values && json_parse(r->s->values, strlen(r->s->values), &doc, NULL) >= 0)
                other = yyjson_obj_get(yyjson_doc_get_root(doc), word_of(r, value));
        return other ? json_append(to, other)
                     : buffer_append(to, buffer_bytes(&value->json), value->json.length);
}

static int no_memory(struct error *err)
{
        return error_errno(err, ENOMEM, "the settings");
}

/* Gives a text to an option of Cloister. */
static int set_option(struct applying *a, struct reading *r, const char *key,
                      const struct buffer *json)
{
        struct settings_result *to = a->result;
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (json_parse(buffer_bytes(json), json->length, &doc, NULL) < 0)
                return no_memory(r->err);
        const char *text = yyjson_get_str(yyjson_doc_get_root(doc));
        if (!text || to->n_cloister == SETTINGS_CLOISTER_MAX)
                return error_set(r->err, EINVAL, "%s: %s needs a text", r->from, key);
        to->cloister[to->n_cloister].name = key;
        to->cloister[to->n_cloister].value = strdup(text);
        return to->cloister[to->n_cloister++].value ? 0 : no_memory(r->err);
}

/* Writes a value to a key. The first setting that sets a key counts. */
static int set_key(struct applying *a, struct reading *r, const char *key,
                   const struct buffer *json)
{
        for (size_t i = 0; i < a->n_set; i++)
                if (strcmp(a->set[i], key) == 0)
                        return 0;
        if (a->n_set == KEYS_MAX)
                return error_set(r->err, E2BIG, "%s: the table sets too many keys", r->from);
        a->set[a->n_set] = strdup(key);
        if (!a->set[a->n_set++])
                return no_memory(r->err);
        if (key[0] == '-')
                return set_option(a, r, key, json);
        bool of_table = strncmp(key, "/publish/", 9) == 0;
        int e = json_tree_put(of_table ? a->table : a->result->settings, key, buffer_bytes(json),
                              json->length);
        return e == -ENOMEM ? no_memory(r->err)
               : e < 0 ? error_set(r->err, EINVAL, "%s: the table has no place %s", r->from, key)
                       : 0;
}

/* A key without its {SETTING}, whose text an earlier setting has given. Returns 0, -EINVAL if there is none. */
static int expand_key(const struct applying *a, const char *key, char ret[CONFIG_CODE_PATH_MAX])
{
        const char *end = key[0] == '{' ? strchr(key, '}') : NULL, *place = NULL;
        size_t n = end ? (size_t)(end - key) - 1 : 0;

        for (size_t i = 0; end && i < a->as->n_settings; i++) {
                const char *name = a->as->settings[i].name;
                if (strlen(name) == n && memcmp(name, key + 1, n) == 0)
                        place = a->places[i];
        }
        int length = place ? snprintf(ret, CONFIG_CODE_PATH_MAX, "%s%s", place, end + 1) : 0;
        return length > 0 && length < CONFIG_CODE_PATH_MAX && ret[0] == '/' ? 0 : -EINVAL;
}

/* The text that `values` of a setting gives for its value is kept, for keys of later settings. */
static int keep_place(struct applying *a, const struct config_setting *s, const struct value *value)
{
        _cleanup_json_ yyjson_doc *given = NULL, *doc = NULL;
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(JSON_MAX);
        struct reading r = {.s = s};

        if (!s->values ||
            json_parse(buffer_bytes(&value->json), value->json.length, &given, NULL) < 0)
                return 0;
        r.text = yyjson_get_str(yyjson_doc_get_root(given));
        if (!r.text || mapped(&r, value, &json) < 0 ||
            json_parse(buffer_bytes(&json), json.length, &doc, NULL) < 0)
                return 0;
        const char *text = yyjson_get_str(yyjson_doc_get_root(doc));
        char **place = &a->places[s - a->as->settings];
        *place = text ? strdup(text) : NULL;
        return text && !*place ? -ENOMEM : 0;
}

/* Changes the table as `merge` says for a value. */
static int merge_into_table(struct applying *a, const struct reading *r, const struct value *value)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!r->s->merge || json_parse(r->s->merge, strlen(r->s->merge), &doc, NULL) < 0)
                return 0;
        yyjson_val *patch = yyjson_obj_get(yyjson_doc_get_root(doc), word_of(r, value));
        return patch && json_tree_merge(a->table, patch) < 0 ? no_memory(r->err) : 0;
}

static int set_keys(struct applying *a, struct reading *r, const struct buffer *json)
{
        int e = 0;

        if (json->error < 0 || json->length == 0)
                return no_memory(r->err);
        for (size_t i = 0; r->s->keys && r->s->keys[i] && e >= 0; i++) {
                const char *key = r->s->keys[i];
                char whole[CONFIG_CODE_PATH_MAX];
                if (key[0] == '{' && expand_key(a, key, whole) < 0)
                        e = error_set(r->err, EINVAL, "%s: the table has no place %s", r->from,
                                      key);
                else
                        e = set_key(a, r, key[0] == '{' ? whole : key, json);
        }
        r->table_is_wrong = e < 0;
        return e;
}

/* The default of a setting, as the table has it. *text: of a string; the caller frees *doc. */
static void take_default(const struct config_setting *s, struct value *value, const char **text,
                         yyjson_doc **doc)
{
        const char *json = s->initial ? s->initial : "null";

        if (json_parse(json, strlen(json), doc, NULL) < 0)
                return;
        yyjson_val *root = yyjson_doc_get_root(*doc);
        if (json_is_number(root) && json_double(root, &value->number) < 0)
                value->number = NAN;
        *text = yyjson_get_str(root);
        json_append(&value->json, root);
}

/* The text for the first name of a list that is refused. */
static const char *text_for_names(const struct config_setting *s, const struct value *names,
                                  yyjson_doc **doc)
{
        _cleanup_json_ yyjson_doc *list = NULL;
        const char *text = NULL;
        yyjson_val *name;
        size_t i, n;

        if (json_parse(buffer_bytes(&names->json), names->json.length, &list, NULL) < 0)
                return NULL;
        yyjson_arr_foreach (yyjson_doc_get_root(list), i, n, name) {
                if (text)
                        break;
                text = *doc ? json_string(yyjson_doc_get_root(*doc), yyjson_get_str(name), NULL)
                            : text_for(s->refuse, yyjson_get_str(name), doc);
        }
        return text;
}

/* A setting that was given. */
static int apply_given(struct applying *a, struct reading *r, struct value *value)
{
        _cleanup_json_ yyjson_doc *refusals = NULL, *notes = NULL;
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(JSON_MAX);

        if (!read_value(a, r, value))
                return -EINVAL;
        const char *word = word_of(r, value);
        const char *why = r->s->type == SETTING_NAMES ? text_for_names(r->s, value, &refusals)
                                                      : text_for(r->s->refuse, word, &refusals);
        if (why)
                return wrong(r, "%s", why);
        const char *note = text_for(r->s->notes, word, &notes);
        if (note && r->text && !r->s->secret)
                add_note(a, "%s %.*s: %s", r->from, SHOWN_MAX, r->text, note);
        else if (note)
                add_note(a, "%s: %s", r->from, note);
        if (merge_into_table(a, r, value) < 0)
                return -ENOMEM;
        mapped(r, value, &json);
        return set_keys(a, r, &json);
}

/* A setting that was not given, or has no effect. */
static int apply_default(struct applying *a, struct reading *r, bool is_set, struct value *value)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        take_default(r->s, value, &r->text, &doc);
        if (r->text && r->s->type == SETTING_PATH) {
                buffer_consume(&value->json, value->json.length);
                read_text(a, r, value);
        }
        r->text = NULL;
        return is_set ? set_keys(a, r, &value->json) : 0;
}

/* Writes the value of a setting for code and `cloister config show`: no part of a secret, and of variables the names only. */
static void put_value(struct applying *a, const struct config_setting *s, bool given,
                      const struct value *value)
{
        const struct buffer *json = given && s->type == SETTING_VARIABLES ? &value->names
                                                                          : &value->json;
        bool is_hidden = s->secret || (given && s->type == SETTING_SERVERS) || json->length == 0;

        json_out_key(&a->values, s->name, strlen(s->name));
        if (is_hidden)
                json_out_raw(&a->values, NULL, "null", strlen("null"));
        else
                json_out_buffer(&a->values, NULL, json);
        if (!is_hidden)
                a->numbers[s - a->as->settings] = value->number;
}

/* value: empty. */
static int apply_value(struct applying *a, const struct config_setting *s, struct value *value,
                       struct error *err)
{
        struct error why = {};
        struct reading r = {.s = s, .err = &why};
        const char *from, *text;
        bool given = find_given(a, s, &r.from, &r.text);
        const struct config_setting *other = s->unless ? find(a->as, s->unless) : NULL;
        bool has_other = other && find_given(a, other, &from, &text);

        if (given && has_other) {
                add_note(a, "%s has no effect beside %s", r.from, from);
                given = false;
        }
        int e = given ? apply_given(a, &r, value)
                      : apply_default(a, &r, s->always && !has_other, value);
        if (e < 0) {
                a->status = r.table_is_wrong                  ? SETTINGS_STATUS_TABLE
                            : r.out_of_range && s->exit_range ? s->exit_range
                                                              : s->exit;
                if (a->status != 0 || why.code == ENOMEM)
                        return error_set(err, why.code ? why.code : -e, "%s", why.text);
                if (!error_is_set(&a->refusal))
                        a->refusal = why;
                buffer_consume(&value->json, value->json.length);
                buffer_consume(&value->names, value->names.length);
        }
        if (value->json.error < 0 || value->names.error < 0)
                return no_memory(err);
        put_value(a, s, given, value);
        return keep_place(a, s, value) < 0 ? no_memory(err) : 0;
}

static int apply_one(struct applying *a, const struct config_setting *s, struct error *err)
{
        struct value value = {.number = NAN};

        buffer_init(&value.json, JSON_MAX);
        buffer_init(&value.names, JSON_MAX);
        int r = apply_value(a, s, &value, err);
        buffer_done(&value.json);
        buffer_done(&value.names);
        return r;
}

static int put_member(struct applying *a, const char *pointer, const struct buffer *json)
{
        return json->error < 0 ? json->error
                               : json_tree_put(a->result->settings, pointer, buffer_bytes(json),
                                               json->length);
}

/* Writes the values, the notes and the first refusal, for code and for the log. */
static int put_members(struct applying *a, struct error *err)
{
        _cleanup_buffer_ struct buffer refusal = BUFFER_INIT(JSON_MAX);

        json_out_end(&a->values, '}');
        json_out_end(&a->notes, ']');
        int r = put_member(a, "/as/values", &a->values_json);
        if (r >= 0)
                r = put_member(a, "/as/notes", &a->notes_json);
        if (r >= 0 && error_is_set(&a->refusal)) {
                json_append_string(&refusal, a->refusal.text, strlen(a->refusal.text));
                r = put_member(a, "/as/refusal", &refusal);
        }
        return r < 0 ? error_errno(err, -r, "the settings") : 0;
}

int settings_apply(const struct config_as *as, const struct settings_given *given,
                   struct json_tree *table, struct settings_result *ret, int *status,
                   struct error *err)
{
        struct applying a = {.as = as, .given = given, .table = table, .result = ret};
        int r = 0;

        *ret = (struct settings_result){.settings = json_tree_new(NULL)};
        *status = SETTINGS_STATUS_TABLE;
        if (!ret->settings)
                return no_memory(err);
        buffer_init(&a.values_json, VALUES_JSON_MAX);
        buffer_init(&a.notes_json, VALUES_JSON_MAX);
        a.values = (struct json_out){.to = &a.values_json};
        a.notes = (struct json_out){.to = &a.notes_json};
        json_out_begin(&a.values, NULL, '{');
        json_out_begin(&a.notes, NULL, '[');
        for (size_t i = 0; i < as->n_settings; i++)
                a.numbers[i] = NAN;
        for (size_t i = 0; i < as->n_settings && r >= 0; i++)
                if (!as->settings[i].same_as)
                        r = apply_one(&a, &as->settings[i], err);
        if (r < 0)
                *status = a.status ? a.status : 1;
        else
                r = put_members(&a, err);
        buffer_done(&a.values_json);
        buffer_done(&a.notes_json);
        for (size_t i = 0; i < a.n_set; i++)
                free(a.set[i]);
        for (size_t i = 0; i < as->n_settings; i++)
                free(a.places[i]);
        return r;
}

void settings_done(struct settings_result *result)
{
        for (size_t i = 0; i < result->n_cloister; i++)
                free(result->cloister[i].value);
        json_tree_free(result->settings);
        *result = (struct settings_result){};
}
