/* Applies the options and variables of another system to a config. */
#include "policy/config/settings.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/did-you-mean.h"
#include "policy/quantity.h"

enum { KEYS_MAX = 128, SHOWN_MAX = 80, TEXT_MAX = 500, NOTES_MAX = 64 };

/* The state of settings_apply(). */
struct applying {
        const struct config_as *as;
        const struct settings_given *given;
        yyjson_mut_doc *table, *out;
        yyjson_mut_val *values, *notes; /* of the object "as" in out */
        const char *set[KEYS_MAX];      /* keys that an earlier setting has set */
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
        yyjson_mut_val *other = s->at_most ? yyjson_mut_obj_get(a->values, s->at_most) : NULL;

        return yyjson_mut_is_num(other) ? yyjson_mut_get_num(other) : s->most;
}

static yyjson_mut_val *read_number(const struct applying *a, struct reading *r)
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
                return NULL;
        }
        if (errno == ERANGE || number < r->s->least || number > most) {
                out_of_range(r, most);
                return NULL;
        }
        return whole ? yyjson_mut_sint(a->out, (int64_t)number) : yyjson_mut_real(a->out, number);
}

static yyjson_mut_val *read_boolean(const struct applying *a, struct reading *r)
{
        static const char *const words[] = {"false", "0", "no",  "off", "n", "f",
                                            "true",  "1", "yes", "on",  "y", "t"};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strcasecmp(r->text, words[i]) == 0)
                        return yyjson_mut_bool(a->out, i >= ARRAY_SIZE(words) / 2);
        wrong(r, "must be true or false");
        return NULL;
}

/* "512m", "1g", "1gb", a number of bytes. */
static yyjson_mut_val *read_bytes(const struct applying *a, struct reading *r)
{
        uint64_t bytes = 0;

        if (quantity_bytes_of(r->text, &bytes) < 0) {
                wrong(r, "must be a size such as 512m or 1g");
                return NULL;
        }
        if (bytes < r->s->least) {
                r->out_of_range = true;
                wrong(r, "must be at least %u MiB", r->s->least >> 20);
                return NULL;
        }
        return yyjson_mut_uint(a->out, bytes);
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
        if (yyjson_mut_arr_size(a->notes) < NOTES_MAX)
                yyjson_mut_arr_add_strcpy(a->out, a->notes, text);
}

/* Adds a variable, and its name to the line for the log. */
static void pass_variable(const struct applying *a, yyjson_mut_val *to, const char *name,
                          const char *value, char passed[TEXT_MAX / 2])
{
        size_t n = strlen(passed);

        yyjson_mut_obj_add(to, yyjson_mut_strcpy(a->out, name), yyjson_mut_strcpy(a->out, value));
        snprintf(passed + n, TEXT_MAX / 2 - n, "%s%s", n > 0 ? ", " : "", name);
}

/* A list of names: an array, or for variables an object with their values. */
static yyjson_mut_val *read_names(struct applying *a, struct reading *r)
{
        bool variables = r->s->type == SETTING_VARIABLES;
        yyjson_mut_val *list = variables ? yyjson_mut_obj(a->out) : yyjson_mut_arr(a->out);
        char passed[TEXT_MAX / 2] = "";

        for (const char *p = r->text; *p;) {
                char name[CONFIG_CODE_PATH_MAX];
                size_t n = strcspn(p, ","), lead = strspn(p, " ");
                size_t length = n > lead ? n - lead : 0;

                while (length > 0 && p[lead + length - 1] == ' ')
                        length--;
                if (variables && length > 0 && !is_variable(p + lead, length)) {
                        wrong(r, "must be names of variables, separated by commas");
                        return NULL;
                }
                snprintf(name, sizeof(name), "%.*s", (int)length, p + lead);
                const char *value = variables && length > 0 ? a->given->variable(name) : NULL;
                if (!variables && length > 0)
                        yyjson_mut_arr_add_strcpy(a->out, list, name);
                else if (value && !yyjson_mut_obj_get(list, name))
                        pass_variable(a, list, name, value, passed);
                else if (variables && length > 0 && !value)
                        add_note(a, "%s: the variable %s is not set, and is not set inside",
                                 r->from, name);
                p += n + (p[n] == ',');
        }
        if (variables && *passed)
                add_note(a, "%s: code gets these variables: %s", r->from, passed);
        return list;
}

/* A JSON array of servers, each with its name, as an object by name. */
static yyjson_mut_val *read_servers(const struct applying *a, struct reading *r)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_mut_val *servers = yyjson_mut_obj(a->out);
        struct error why = {};
        size_t i, n;
        yyjson_val *item;

        if (json_parse(r->text, strlen(r->text), &doc, &why) < 0) {
                wrong(r, "is not JSON: %s", why.text);
                return NULL;
        }
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (!yyjson_is_arr(root) || yyjson_arr_size(root) > CONFIG_SERVERS_MAX) {
                wrong(r, "must be a JSON array of at most %d servers", CONFIG_SERVERS_MAX);
                return NULL;
        }
        yyjson_arr_foreach (root, i, n, item) {
                const char *name = json_string(item, "name", NULL);
                yyjson_mut_val *copy = name ? yyjson_val_mut_copy(a->out, item) : NULL;
                if (!copy) {
                        wrong(r, "item %zu must be an object with a name", i + 1);
                        return NULL;
                }
                yyjson_mut_obj_remove_key(copy, "name");
                yyjson_mut_obj_add(servers, yyjson_mut_strcpy(a->out, name), copy);
        }
        return servers;
}

static yyjson_mut_val *read_text(const struct applying *a, struct reading *r)
{
        const char *home = a->given->home;

        if (r->s->type == SETTING_PATH && r->text[0] == '~' && home &&
            (r->text[1] == '/' || r->text[1] == '\0')) {
                char path[4096];
                if (snprintf(path, sizeof(path), "%s%s", home, r->text + 1) < (int)sizeof(path))
                        return yyjson_mut_strcpy(a->out, path);
        }
        return yyjson_mut_strcpy(a->out, r->text);
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

/* The value of a text. NULL: wrong, with the error set, or no memory. */
static yyjson_mut_val *read_value(struct applying *a, struct reading *r)
{
        size_t n = r->text ? strlen(r->text) : 0;

        if (r->s->type == SETTING_FLAG)
                return yyjson_mut_bool(a->out, true);
        if (n > SETTINGS_VALUE_MAX) {
                error_set(r->err, EINVAL, "%s: longer than %d KiB", r->from,
                          SETTINGS_VALUE_MAX / 1024);
                return NULL;
        }
        for (const char *c = r->text; *c && r->s->type != SETTING_SERVERS; c++) {
                if ((unsigned char)*c >= 0x20 && *c != 0x7f)
                        continue;
                error_set(r->err, EINVAL, "%s: has control characters", r->from);
                return NULL;
        }
        if (!is_choice(r->s, r->text)) {
                list_choices(r->s, r);
                return NULL;
        }
        switch (r->s->type) {
        case SETTING_INTEGER:
        case SETTING_NUMBER:
                return read_number(a, r);
        case SETTING_BOOLEAN:
                return read_boolean(a, r);
        case SETTING_NAMES:
        case SETTING_VARIABLES:
                return read_names(a, r);
        case SETTING_BYTES:
                return read_bytes(a, r);
        case SETTING_SERVERS:
                return read_servers(a, r);
        default:
                return read_text(a, r);
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
static const char *word_of(const struct reading *r, yyjson_mut_val *value)
{
        if (yyjson_mut_is_bool(value))
                return yyjson_mut_get_bool(value) ? "true" : "false";
        return r->text;
}

/* The value that a row's `values` gives for a text, or the value itself. */
static yyjson_mut_val *mapped(const struct applying *a, const struct reading *r,
                              yyjson_mut_val *value)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!r->s->values || json_parse(r->s->values, strlen(r->s->values), &doc, NULL) < 0)
                return value;
        yyjson_val *other = yyjson_obj_get(yyjson_doc_get_root(doc), word_of(r, value));
        return other ? yyjson_val_mut_copy(a->out, other) : value;
}

static int no_memory(struct error *err)
{
        return error_errno(err, ENOMEM, "the settings");
}

/* Writes a value to a key. The first setting that sets a key counts. */
static int set_key(struct applying *a, struct reading *r, const char *key, yyjson_mut_val *value)
{
        struct settings_result *to = a->result;

        for (size_t i = 0; i < a->n_set; i++)
                if (strcmp(a->set[i], key) == 0)
                        return 0;
        if (a->n_set == KEYS_MAX)
                return error_set(r->err, E2BIG, "%s: the table sets too many keys", r->from);
        a->set[a->n_set++] = key;
        if (key[0] == '-') {
                const char *text = yyjson_mut_get_str(value);
                if (!text || to->n_cloister == SETTINGS_CLOISTER_MAX)
                        return error_set(r->err, EINVAL, "%s: %s needs a text", r->from, key);
                to->cloister[to->n_cloister].name = key;
                to->cloister[to->n_cloister].value = strdup(text);
                return to->cloister[to->n_cloister++].value ? 0 : no_memory(r->err);
        }
        bool of_table = strncmp(key, "/publish/", 9) == 0;
        yyjson_mut_doc *doc = of_table ? a->table : a->out;
        yyjson_mut_val *copy = of_table ? yyjson_mut_val_mut_copy(doc, value)
                                        : yyjson_mut_val_mut_copy(a->out, value);
        yyjson_ptr_ctx context = {};
        yyjson_ptr_err why = {};
        if (!copy || !yyjson_mut_doc_ptr_setx(doc, key, strlen(key), copy, true, &context, &why))
                return error_set(r->err, EINVAL, "%s: the table has no place %s", r->from, key);
        return 0;
}

/* The text that `values` of a setting gives for its value. */
static const char *place_of(const struct applying *a, const char *name, size_t n)
{
        for (size_t i = 0; i < a->as->n_settings; i++) {
                const struct config_setting *s = &a->as->settings[i];
                if (strlen(s->name) != n || memcmp(s->name, name, n) != 0)
                        continue;
                struct reading r = {.s = s};
                yyjson_mut_val *value = yyjson_mut_obj_get(a->values, s->name);
                r.text = yyjson_mut_get_str(value);
                return r.text ? yyjson_mut_get_str(mapped(a, &r, value)) : NULL;
        }
        return NULL;
}

/* A key without its {SETTING}; NULL: that has no text. */
static const char *expand_key(const struct applying *a, const char *key)
{
        const char *end = key[0] == '{' ? strchr(key, '}') : NULL;
        char whole[CONFIG_CODE_PATH_MAX];

        if (key[0] != '{')
                return key;
        const char *place = end ? place_of(a, key + 1, (size_t)(end - key) - 1) : NULL;
        if (!place || snprintf(whole, sizeof(whole), "%s%s", place, end + 1) >= (int)sizeof(whole))
                return NULL;
        return yyjson_mut_get_str(yyjson_mut_strcpy(a->out, whole));
}

/* Changes the table as `merge` says for a value. */
static int merge_into_table(struct applying *a, const struct reading *r, yyjson_mut_val *value)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!r->s->merge || json_parse(r->s->merge, strlen(r->s->merge), &doc, NULL) < 0)
                return 0;
        yyjson_val *patch = yyjson_obj_get(yyjson_doc_get_root(doc), word_of(r, value));
        if (!patch)
                return 0;
        yyjson_mut_val *copy = yyjson_val_mut_copy(a->table, patch);
        yyjson_mut_val *whole = copy ? yyjson_mut_merge_patch(
                                               a->table, yyjson_mut_doc_get_root(a->table), copy)
                                     : NULL;
        if (!whole)
                return no_memory(r->err);
        yyjson_mut_doc_set_root(a->table, whole);
        return 0;
}

static int set_keys(struct applying *a, struct reading *r, yyjson_mut_val *value)
{
        int e = 0;

        if (!value)
                return no_memory(r->err);
        for (size_t i = 0; r->s->keys && r->s->keys[i] && e >= 0; i++) {
                const char *key = expand_key(a, r->s->keys[i]);
                e = key ? set_key(a, r, key, value)
                        : error_set(r->err, EINVAL, "%s: the table has no place %s", r->from,
                                    r->s->keys[i]);
        }
        r->table_is_wrong = e < 0;
        return e;
}

static yyjson_mut_val *default_of(const struct applying *a, const struct config_setting *s)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        if (!s->initial || json_parse(s->initial, strlen(s->initial), &doc, NULL) < 0)
                return yyjson_mut_null(a->out);
        yyjson_val *root = yyjson_doc_get_root(doc);
        int64_t number = 0;
        double real = 0;
        /* Numbers are kept as they were written: this one is read as one of 64 bits. */
        if (json_int64(root, &number) == 0)
                return yyjson_mut_sint(a->out, number);
        if (json_is_number(root) && json_double(root, &real) == 0)
                return yyjson_mut_real(a->out, real);
        return yyjson_val_mut_copy(a->out, root);
}

/* The first name of a list that is refused. */
static const char *text_for_names(const struct config_setting *s, yyjson_mut_val *names,
                                  yyjson_doc **doc)
{
        yyjson_mut_val *name;
        size_t i, n;

        yyjson_mut_arr_foreach (names, i, n, name) {
                const char *text = *doc ? json_string(yyjson_doc_get_root(*doc),
                                                      yyjson_mut_get_str(name), NULL)
                                        : text_for(s->refuse, yyjson_mut_get_str(name), doc);
                if (text)
                        return text;
        }
        return NULL;
}

/* A setting that was given. */
static int apply_given(struct applying *a, struct reading *r, yyjson_mut_val **value)
{
        _cleanup_json_ yyjson_doc *refusals = NULL, *notes = NULL;

        *value = read_value(a, r);
        if (!*value)
                return error_is_set(r->err) ? -EINVAL : no_memory(r->err);
        const char *word = word_of(r, *value);
        const char *why = r->s->type == SETTING_NAMES ? text_for_names(r->s, *value, &refusals)
                                                      : text_for(r->s->refuse, word, &refusals);
        if (why)
                return wrong(r, "%s", why);
        const char *note = text_for(r->s->notes, word, &notes);
        if (note && r->text && !r->s->secret)
                add_note(a, "%s %.*s: %s", r->from, SHOWN_MAX, r->text, note);
        else if (note)
                add_note(a, "%s: %s", r->from, note);
        int e = merge_into_table(a, r, *value);
        return e < 0 ? e : set_keys(a, r, mapped(a, r, *value));
}

/* The names in an object: code and log get no value. */
static yyjson_mut_val *names_of(const struct applying *a, yyjson_mut_val *object)
{
        yyjson_mut_val *names = yyjson_mut_arr(a->out), *key, *value;
        size_t i, n;

        yyjson_mut_obj_foreach(object, i, n, key, value)
        {
                yyjson_mut_arr_add_strcpy(a->out, names, yyjson_mut_get_str(key));
        }
        return names;
}

static int apply_one(struct applying *a, const struct config_setting *s, struct error *err)
{
        struct error why = {};
        struct reading r = {.s = s, .err = &why};
        yyjson_mut_val *value = NULL;
        const char *from, *text;
        bool given = find_given(a, s, &r.from, &r.text);
        const struct config_setting *other = s->unless ? find(a->as, s->unless) : NULL;
        int e = 0;

        if (given && other && find_given(a, other, &from, &text)) {
                add_note(a, "%s has no effect beside %s", r.from, from);
                given = false;
        } else if (given) {
                e = apply_given(a, &r, &value);
        }
        if (e == 0 && !given) {
                value = default_of(a, s);
                r.text = yyjson_mut_get_str(value);
                if (r.text && s->type == SETTING_PATH)
                        value = read_text(a, &r);
                if (s->always && !(other && find_given(a, other, &from, &text)))
                        e = set_keys(a, &r, value);
        }
        if (e < 0) {
                a->status = r.table_is_wrong                  ? SETTINGS_STATUS_TABLE
                            : r.out_of_range && s->exit_range ? s->exit_range
                                                              : s->exit;
                if (a->status != 0 || why.code == ENOMEM)
                        return error_set(err, why.code ? why.code : -e, "%s", why.text);
                if (!error_is_set(&a->refusal))
                        a->refusal = why;
                value = yyjson_mut_null(a->out);
        }
        if (s->secret || (given && s->type == SETTING_SERVERS))
                value = yyjson_mut_null(a->out);
        else if (given && s->type == SETTING_VARIABLES && yyjson_mut_is_obj(value))
                value = names_of(a, value);
        yyjson_mut_val *name = yyjson_mut_strcpy(a->out, s->name);
        return name && value && yyjson_mut_obj_add(a->values, name, value) ? 0 : no_memory(err);
}

int settings_apply(const struct config_as *as, const struct settings_given *given,
                   yyjson_mut_doc *table, struct settings_result *ret, int *status,
                   struct error *err)
{
        struct applying a = {.as = as, .given = given, .table = table, .result = ret};
        int r = 0;

        *ret = (struct settings_result){.settings = yyjson_mut_doc_new(NULL)};
        *status = SETTINGS_STATUS_TABLE;
        a.out = ret->settings;
        yyjson_mut_val *root = a.out ? yyjson_mut_obj(a.out) : NULL;
        if (!root)
                return no_memory(err);
        yyjson_mut_doc_set_root(a.out, root);
        yyjson_mut_val *object = yyjson_mut_obj_add_obj(a.out, root, "as");
        a.values = yyjson_mut_obj_add_obj(a.out, object, "values");
        a.notes = yyjson_mut_obj_add_arr(a.out, object, "notes");
        if (!object || !a.values || !a.notes)
                return no_memory(err);
        for (size_t i = 0; i < as->n_settings && r >= 0; i++)
                if (!as->settings[i].same_as)
                        r = apply_one(&a, &as->settings[i], err);
        if (r < 0)
                *status = a.status ? a.status : 1;
        if (r >= 0 && error_is_set(&a.refusal) &&
            !yyjson_mut_obj_add_strcpy(a.out, object, "refusal", a.refusal.text))
                r = no_memory(err);
        return r;
}

void settings_done(struct settings_result *result)
{
        for (size_t i = 0; i < result->n_cloister; i++)
                free(result->cloister[i].value);
        yyjson_mut_doc_free(result->settings);
        *result = (struct settings_result){};
}
