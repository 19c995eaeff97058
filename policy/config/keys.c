/* The table of the config's keys, and what all structs of a config have in common: defaults, copies, ends. */
#include "policy/config/keys.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/did-you-mean.h"
#include "policy/network-rules.h"
#include "policy/python-version.h"
#include "policy/result-form.h"
#include "policy/rules/rule-test.h"

#define KIB    (1024ull)
#define MIB    (1024 * KIB)
#define TIB    (1024 * 1024 * MIB)
#define SECOND 1000u
#define DAY    (24 * 3600 * SECOND)

#define TOOL     (1u << PUBLISHED_TOOL)
#define PROMPT   (1u << PUBLISHED_PROMPT)
#define TEMPLATE (1u << PUBLISHED_TEMPLATE)
#define READABLE (1u << PUBLISHED_RESOURCE | TEMPLATE)

/* In the order of the enums and of enum log_level. */
static const char *const log_codes[] = {"hash", "full", "none", NULL}; /* enum config_log_code */
static const char *const levels[] = {"error", "warning", "info", "debug", NULL};
static const char *const modes[] = {"ro", "rw", NULL};
static const char *const installs[] = {"never", "allow", NULL};
static const char *const grants[] = {"authorization_code", "client_credentials", NULL};
static const char *const instances[] = {"shared", "principal", NULL};
static const char *const speculations[] = {"shared", "disabled", NULL};
/* In the order of enum config_journal_sync. */
static const char *const journal_syncs[] = {"none", "group", "each", NULL};
static const char *const journal_arguments[] = {"masked", "hash", "full", NULL};
static const char *const reloads[] = {"change", "signal", NULL};
static const char *const unlimited[] = {"unlimited", NULL};
static const char *const guests[] = {"cloister", "codemode-lite", "pyodide", NULL};
static const char *const forms[] = {"cell", "script", NULL};
/* In the order of enum config_setting_type. */
static const char *const setting_types[] = {"text",    "integer", "number",    "boolean",
                                            "flag",    "names",   "variables", "bytes",
                                            "servers", "path",    NULL};
static const char *const supports[] = {"optional", "required", "forbidden", NULL};

#define SCHEMA_NAME_PATTERN "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"
#define SCHEMA_NAME         "\"type\":\"string\",\"pattern\":\"" SCHEMA_NAME_PATTERN "\""
#define SCHEMA_PROFILES                                                                                  \
        "\"type\":\"object\",\"maxProperties\":15,\"propertyNames\":{\"pattern\":\"" SCHEMA_NAME_PATTERN \
        "\"},\"additionalProperties\":{\"$ref\":\"#/$defs/profile\"}"
#define SCHEMA_PUBLISH                                                                                  \
        "\"type\":\"object\",\"properties\":{"                                                          \
        "\"tools\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/$defs/tool\"}},"         \
        "\"prompts\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/$defs/prompt\"}},"     \
        "\"resources\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/$defs/resource\"}}," \
        "\"templates\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#/$defs/template\"}}}"
#define SCHEMA_SETTINGS                                                                            \
        "\"type\":\"object\",\"maxProperties\":64,\"additionalProperties\":{\"anyOf\":["           \
        "{\"type\":\"string\"},{\"$ref\":\"#/$defs/setting\"}]}"
/* With a star anywhere, or SERVER.TOOL; without blanks and control characters. */
#define SCHEMA_CALL_NAME                                                                           \
        "{\"type\":\"string\",\"maxLength\":256,\"pattern\":"                                      \
        "\"^([^\\u0001- \\u007f]*[*][^\\u0001- \\u007f]*|[^\\u0001- \\u007f.]+[.][^\\u0001- "      \
        "\\u007f]+)$\"}"
#define SCHEMA_CALL_NAMES                                                                          \
        "{\"anyOf\":[" SCHEMA_CALL_NAME ",{\"type\":\"array\",\"minItems\":1,\"maxItems\":64,"     \
        "\"items\":" SCHEMA_CALL_NAME "}]}"
#define SCHEMA_POINTER                                                                             \
        "{\"type\":\"string\",\"maxLength\":1024,\"pattern\":\"^(/([^~]|~[01])*)?$\"}"
#define SCHEMA_TEXT_255  "{\"type\":\"string\",\"minLength\":1,\"maxLength\":255}"
#define SCHEMA_TEXT_256  "{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}"
#define SCHEMA_TEXT_1024 "{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024}"
#define SCHEMA_HOST      "{\"type\":\"string\",\"minLength\":1,\"maxLength\":262}"
/* One condition of a rule (policy/rules/condition.h). */
#define SCHEMA_CONDITION                                                                           \
        "{\"type\":\"object\",\"minProperties\":1,\"additionalProperties\":false,"                 \
        "\"properties\":{\"equals\":true,"                                                         \
        "\"one_of\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":256},"                         \
        "\"prefix\":" SCHEMA_TEXT_1024 ",\"glob\":" SCHEMA_TEXT_255                                \
        ",\"path\":{\"type\":\"string\",\"maxLength\":255,\"pattern\":\"^(/|[*][*])\"},"           \
        "\"host\":{\"anyOf\":[" SCHEMA_HOST ",{\"type\":\"array\",\"minItems\":1,"                 \
        "\"maxItems\":256,\"items\":" SCHEMA_HOST "}]},"                                           \
        "\"min\":{\"type\":\"number\"},\"max\":{\"type\":\"number\"},"                             \
        "\"max_length\":{\"type\":\"integer\",\"minimum\":0},\"regex\":" SCHEMA_TEXT_1024          \
        ",\"type\":{\"enum\":[\"null\",\"boolean\",\"number\",\"integer\",\"string\",\"array\","   \
        "\"object\"]},\"absent\":{\"type\":\"boolean\"},"                                          \
        "\"not\":{\"$ref\":\"#/$defs/condition\"}}}"
#define SCHEMA_CALL_RULES                                                                                \
        "\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"oneOf\":["                      \
        "{\"required\":[\"allow\"]},{\"required\":[\"ask\"]},{\"required\":[\"deny\"]}],"                \
        "\"properties\":{"                                                                               \
        "\"allow\":" SCHEMA_CALL_NAMES ",\"ask\":" SCHEMA_CALL_NAMES                                     \
        ",\"deny\":" SCHEMA_CALL_NAMES                                                                   \
        ",\"when\":{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":32,"                       \
        "\"propertyNames\":" SCHEMA_POINTER                                                              \
        ",\"additionalProperties\":{\"$ref\":\"#/$defs/condition\"}},"                                   \
        "\"hints\":{\"type\":\"object\",\"minProperties\":1,\"propertyNames\":{\"enum\":["               \
        "\"read_only\",\"destructive\",\"idempotent\",\"open_world\"]},\"additionalProperties\":"        \
        "{\"type\":\"boolean\"}},\"after\":{\"type\":\"object\",\"minProperties\":1,"                    \
        "\"propertyNames\":{\"enum\":[\"cell\",\"session\",\"hour\"]},"                                  \
        "\"additionalProperties\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000}},"            \
        "\"seen\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"enum\":[\"private\",\"untrusted\"]}}," \
        "\"sends\":{\"enum\":[\"open\",\"closed\"]},\"plan\":{\"const\":\"run\"},"                       \
        "\"planned\":{\"type\":\"object\"},\"vary\":{\"type\":\"array\",\"minItems\":1,"                 \
        "\"maxItems\":16,\"items\":" SCHEMA_POINTER "},"                                                 \
        "\"why\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200}}}"
#define SCHEMA_HOSTS                                                                               \
        "\"minItems\":1,\"items\":{\"anyOf\":[" SCHEMA_TEXT_256                                    \
        ",{\"type\":\"object\",\"required\":["                                                     \
        "\"host\"],\"additionalProperties\":false,\"properties\":{\"host\":" SCHEMA_TEXT_256       \
        ",\"inspect\":{\"type\":\"boolean\"}}}]}"
#define SCHEMA_SECRETS                                                                             \
        "\"type\":\"object\",\"maxProperties\":16,\"propertyNames\":{\"pattern\":"                 \
        "\"^[A-Za-z_][A-Za-z0-9_]{0,63}$\"},"                                                      \
        "\"additionalProperties\":{\"$ref\":\"#/$defs/secret\"}"
#define SCHEMA_SECRET_ARGUMENTS                                                                    \
        "\"type\":\"object\",\"minProperties\":1,\"maxProperties\":16,"                            \
        "\"propertyNames\":{\"pattern\":\"^[^.*]+[.][^*]+$\"},"                                    \
        "\"additionalProperties\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":16,"             \
        "\"items\":{\"type\":\"string\",\"maxLength\":256,\"pattern\":\"^/([^~]|~[01])*$\"}}"
#define SCHEMA_LABELS_MEMBERS                                                                      \
        "\"returns\":{\"type\":\"array\",\"items\":{\"enum\":[\"private\",\"untrusted\"]}},"       \
        "\"sends\":{\"enum\":[\"open\",\"closed\"]}"
#define SCHEMA_LABELS                                                                               \
        "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" SCHEMA_LABELS_MEMBERS \
        ",\"tools\":{\"type\":\"object\",\"maxProperties\":64,\"propertyNames\":{"                  \
        "\"minLength\":1,\"maxLength\":256},\"additionalProperties\":{"                             \
        "\"type\":\"object\",\"additionalProperties\":false,\"properties\":{" SCHEMA_LABELS_MEMBERS \
        "}}}}"
#define SCHEMA_RULE_TESTS                                                                                                                   \
        "\"items\":{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"call\","                                             \
        "\"expect\"],\"properties\":{\"call\":{\"type\":\"string\",\"maxLength\":1024,\"pattern\":\"^[^.]+[.].\"},\"arguments\":{\"type\":" \
        "\"object\"},\"annotations\":{\"type\":\"object\"},\"seen\":{\"type\":\"array\",\"items\":"                                         \
        "{\"enum\":[\"private\",\"untrusted\"]}},"                                                                                          \
        "\"expect\":{\"enum\":[\"allow\",\"ask\",\"deny\"]}}}"
#define SCHEMA_SECRET_FILE "\"pattern\":\"^(/|~/|[$])\""
#define SCHEMA_SCHEMA                                                                              \
        "\"type\":\"object\",\"required\":[\"type\"],\"properties\":{\"type\":{\"const\":\"object\"}}"

#define PLACE(place, type) typedef type STRUCT_##place;
CONFIG_EACH_PLACE(PLACE)
#undef PLACE

#define RANGE(from, to) .least = (from), .most = (to)
#define OF(p, m)        .offset = offsetof(STRUCT_##p, m), .size = sizeof(((STRUCT_##p *)NULL)->m)
#define ALIAS(...)
#define FOREIGN(...)
static const struct config_key rows[] = {
#define KEY(p, n, k, m, t, ...)                                                                    \
        {.name = (n),                                                                              \
         .place = CONFIG_##p,                                                                      \
         .kind = CONFIG_##k,                                                                       \
         OF(p, m),                                                                                 \
         .text = (t),                                                                              \
         ##__VA_ARGS__},
#define CODE(p, n, c, t, ...)                                                                      \
        {.name = (n), .place = CONFIG_##p, .code = CODE_##c, .text = (t), ##__VA_ARGS__},
#define PART(p, n, i, t, ...)                                                                      \
        {.name = (n),                                                                              \
         .place = CONFIG_##p,                                                                      \
         .kind = CONFIG_OBJECT,                                                                    \
         .inside = CONFIG_##i,                                                                     \
         .text = (t),                                                                              \
         ##__VA_ARGS__},
#define MEMBER(p, k, m, ...) {.place = CONFIG_##p, .kind = CONFIG_##k, OF(p, m), ##__VA_ARGS__},
#include "policy/config/keys.def"
};
#undef KEY
#undef CODE
#undef PART
#undef MEMBER
#undef ALIAS
#undef FOREIGN

static const struct config_alias aliases[] = {
#define KEY(...)
#define CODE(...)
#define PART(...)
#define MEMBER(...)
#define ALIAS(p, n, o, f) {(n), CONFIG_##p, (o), CONFIG_##f},
#define FOREIGN(p, n)     {(n), CONFIG_##p, NULL, CONFIG_FOREIGN},
#include "policy/config/keys.def"
};

const struct config_key *config_next_key(enum config_place place, const struct config_key *before)
{
        for (size_t i = before ? (size_t)(before - rows) + 1 : 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].place == place ||
                    (place == CONFIG_TOP && rows[i].place == CONFIG_PROFILE &&
                     rows[i].flags & CONFIG_AT_TOP))
                        return &rows[i];
        return NULL;
}

const struct config_key *config_next_own_key(const struct config_key *before)
{
        enum config_place place = before && before->place == CONFIG_METRICS ? CONFIG_METRICS
                                                                            : CONFIG_TOP;
        const struct config_key *key = config_next_key(place, before);

        return key || place == CONFIG_METRICS ? key : config_next_key(CONFIG_METRICS, NULL);
}

const struct config_alias *config_next_alias(enum config_place place,
                                             const struct config_alias *before)
{
        for (size_t i = before ? (size_t)(before - aliases) + 1 : 0; i < ARRAY_SIZE(aliases); i++)
                if (aliases[i].place == place)
                        return &aliases[i];
        return NULL;
}

/* k is a name, which takes no parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define FOR_KEYS(k, of_place)                                                                      \
        for (const struct config_key *k = NULL; (k = config_next_key((of_place), k));)
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct config_key *find_name(enum config_place place, const char *name, size_t n)
{
        FOR_KEYS(key, place)
        if (key->name && strlen(key->name) == n && memcmp(key->name, name, n) == 0)
                return key;
        return NULL;
}

const struct config_key *config_find_key(enum config_place place, const char *name,
                                         enum config_form *form)
{
        const struct config_key *key = find_name(place, name, strlen(name));
        const struct config_alias *alias = NULL;

        *form = CONFIG_SAME;
        while (!key && (alias = config_next_alias(place, alias))) {
                if (strcmp(alias->name, name) != 0)
                        continue;
                *form = alias->form;
                if (alias->form == CONFIG_ELSEWHERE)
                        return NULL;
                size_t n = alias->of ? strcspn(alias->of, ".") : 0;
                key = n > 0 ? find_name(place, alias->of, n) : NULL;
                /* "tools.allow" */
                return key && alias->of[n] ? find_name(key->inside, alias->of + n + 1,
                                                       strlen(alias->of) - n - 1)
                                           : key;
        }
        return key;
}

const char *config_nearest_key(enum config_place place, const char *name)
{
        const char *names[ARRAY_SIZE(rows) + 1];
        size_t n = 0;

        for (const struct config_alias *a = NULL; (a = config_next_alias(place, a));)
                if (a->form == CONFIG_ELSEWHERE && strcmp(a->name, name) == 0)
                        return a->of;
        FOR_KEYS(key, place)
        if (key->name && key->name[0] != '$')
                names[n++] = key->name;
        names[n] = NULL;
        return did_you_mean(name, names);
}

uint64_t config_key_bit(const struct config_key *key)
{
        return UINT64_C(1) << (key - config_next_key(CONFIG_PROFILE, NULL));
}

/* Numbers of 1, 2, 4 and 8 bytes. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes of a number come first");

uint64_t config_number(const struct config_key *key, const void *in)
{
        uint64_t value = 0;

        memcpy(&value, config_member(key, in), key->size);
        return value;
}

void config_set_number(const struct config_key *key, void *in, uint64_t value)
{
        memcpy(config_member(key, in), &value, key->size);
}

void config_print_bytes(char *to, size_t n, uint64_t bytes)
{
        static const char units[] = "KMGT";
        size_t unit = 0;

        for (bytes /= 1024; bytes && bytes % 1024 == 0 && unit < sizeof(units) - 2; unit++)
                bytes /= 1024;
        snprintf(to, n, "%llu%c", (unsigned long long)bytes, units[unit]);
}

size_t config_place_size(enum config_place place)
{
#define PLACE(place, type) [CONFIG_##place] = sizeof(type),
        static const size_t sizes[CONFIG_PLACES] = {CONFIG_EACH_PLACE(PLACE)};
#undef PLACE

        return sizes[place];
}

/* The rows whose members are in the struct of the place: at the top level, those of profiles are not. */
#define FOR_MEMBERS(k, of_place)                                                                   \
        FOR_KEYS(k, of_place)                                                                      \
        if ((k)->place == (of_place))

void config_defaults(enum config_place place, void *in)
{
        FOR_MEMBERS(key, place)
        {
                if (config_is_number(key) && key->name)
                        config_set_number(key, in, key->initial);
                else if (key->kind == CONFIG_OBJECT)
                        config_defaults(key->inside, config_member(key, in));
        }
}

/* An array: the pointer, and the number behind it. */
struct array {
        char *items;
        size_t n;
};

static void free_members(enum config_place place, void *in);

static void free_member(const struct config_key *key, void *in)
{
        void *member = config_member(key, in);
        char **text = member;
        struct array *array = member;

        if (config_is_text(key)) {
                if (*text && key->flags & CONFIG_SECRET)
                        explicit_bzero(*text, strlen(*text));
                free(*text);
                *text = NULL;
        } else if (key->kind == CONFIG_LIST) {
                *(char ***)member = config_list_free(*(char ***)member);
        } else if (key->kind == CONFIG_OBJECT) {
                free_members(key->inside, member);
        } else if (key->kind == CONFIG_ARRAY) {
                for (size_t i = 0; i < array->n; i++)
                        free_members(key->inside,
                                     array->items + i * config_place_size(key->inside));
                free(array->items);
                *array = (struct array){};
        }
}

static void free_members(enum config_place place, void *in)
{
        FOR_MEMBERS(key, place)
        free_member(key, in);
}

void config_done(enum config_place place, void *in)
{
        free_members(place, in);
        memset(in, 0, config_place_size(place));
}

void config_reset(const struct config_key *key, void *in)
{
        free_member(key, in);
        if (key->kind == CONFIG_OBJECT)
                config_defaults(key->inside, config_member(key, in));
}

/* Makes the members of a struct that was copied byte by byte its own; those that it cannot are NULL. */
static int copy_list(char ***to, char *const *from)
{
        size_t n = 0;

        while (from && from[n])
                n++;
        char **copy = from ? calloc(n + 1, sizeof(char *)) : NULL;
        for (size_t i = 0; copy && i < n; i++) {
                if (config_set_text(&copy[i], from[i]) < 0) {
                        config_list_free(copy);
                        return -ENOMEM;
                }
        }
        if (from && !copy)
                return -ENOMEM;
        *to = copy;
        return 0;
}

static int own_members(enum config_place place, void *in);

static int own_array(const struct config_key *key, struct array *array)
{
        size_t n = array->n, size = config_place_size(key->inside);
        const char *from = array->items;
        int r = 0;

        *array = (struct array){n > 0 ? calloc(n, size) : NULL, 0};
        if (n > 0 && !array->items)
                return -ENOMEM;
        for (; array->n < n; array->n++) {
                memcpy(array->items + array->n * size, from + array->n * size, size);
                if (own_members(key->inside, array->items + array->n * size) < 0)
                        r = -ENOMEM;
        }
        return r;
}

static int own_members(enum config_place place, void *in)
{
        int r = 0;

        FOR_MEMBERS(key, place)
        {
                void *member = config_member(key, in);
                char *text = config_is_text(key) ? *(char **)member : NULL;
                int e = 0;
                if (text) {
                        *(char **)member = NULL;
                        e = config_set_text(member, text);
                } else if (key->kind == CONFIG_LIST) {
                        char **list = *(char ***)member;
                        *(char ***)member = NULL;
                        e = copy_list(member, list);
                } else if (key->kind == CONFIG_OBJECT) {
                        e = own_members(key->inside, member);
                } else if (key->kind == CONFIG_ARRAY) {
                        e = own_array(key, member);
                }
                r = e < 0 ? e : r;
        }
        return r;
}

int config_copy(enum config_place place, const void *from, void *to)
{
        memcpy(to, from, config_place_size(place));
        int r = own_members(place, to);
        if (r < 0)
                config_done(place, to);
        return r;
}

void config_move(const struct config_key *key, void *from, void *to)
{
        if (key->kind == CONFIG_OBJECT) {
                FOR_MEMBERS(inner, key->inside)
                config_move(inner, config_member(key, from), config_member(key, to));
                return;
        }
        free_member(key, to);
        size_t size = key->kind == CONFIG_ARRAY ? sizeof(struct array) : key->size;
        memcpy(config_member(key, to), config_member(key, from), size);
        if (!config_is_number(key))
                memset(config_member(key, from), 0, size);
}

int config_set_text(char **to, const char *text)
{
        char *copy = strdup(text);
        if (!copy)
                return -ENOMEM;
        free(*to);
        *to = copy;
        return 0;
}

char **config_list_free(char **list)
{
        for (char **item = list; item && *item; item++)
                free(*item);
        free(list);
        return NULL;
}

int config_append_items(void *array, size_t *count, void *more, size_t *n, size_t size)
{
        void **to = array, **from = more;

        if (*n == 0)
                return 0;
        char *grown = reallocarray(*to, *count + *n, size);
        if (!grown)
                return -ENOMEM;
        memcpy(grown + *count * size, *from, *n * size);
        *to = grown;
        *count += *n;
        *n = 0;
        return 0;
}

const char *config_published_kind_name(enum config_published_kind kind)
{
        static const char *const names[PUBLISHED_KINDS] = {
                [PUBLISHED_TOOL] = "tool",
                [PUBLISHED_PROMPT] = "prompt",
                [PUBLISHED_RESOURCE] = "resource",
                [PUBLISHED_TEMPLATE] = "template",
        };

        return names[kind];
}

/* ---- JSON Schema (draft 2020-12) ---- */

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
        else if (key->kind == CONFIG_TIME && key->words && value == CONFIG_UNLIMITED)
                json_out_text(out, name, key->words[0]);
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
        if (key->words) {
                json_out_begin(out, NULL, '{');
                json_out_text(out, "const", key->words[0]);
                json_out_end(out, '}');
        }
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
                [CONFIG_PYTHON] = ("^(/|" PYTHON_VERSION_PATTERN "$)"),
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
        bool either = key->code == CODE_NETWORK || key->code == CODE_POOL ||
                      key->code == CODE_NODE || key->code == CODE_RUN_LANGUAGE ||
                      key->code == CODE_RUN_TIMEOUT;

        if (key->code == CODE_RESULT) {
                result_form_schema(out);
                return;
        }

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

static const char *const takes[] = {"new sessions", "at once", "restart"};

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
        if (key->place == CONFIG_TOP || key->place == CONFIG_PROFILE || key->place == CONFIG_LIMITS)
                json_out_text(out, "x-takes-effect", takes[key->takes]);
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
        if (place == CONFIG_RUN || place == CONFIG_RUN_LANGUAGE || place == CONFIG_RUN_TIMEOUT)
                json_out_bool(out, "additionalProperties", false);
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
        put_json(out, "condition", SCHEMA_CONDITION);
        json_out_begin(out, "secret", '{');
        put_object(out, CONFIG_SECRETS, 0);
        json_out_end(out, '}');
        json_out_begin(out, "setting", '{');
        put_object(out, CONFIG_SETTING, 0);
        json_out_end(out, '}');
        for (unsigned kind = 0; kind < PUBLISHED_KINDS; kind++) {
                json_out_begin(out, config_published_kind_name((enum config_published_kind)kind),
                               '{');
                put_object(out, CONFIG_PUBLISHED, 1u << kind);
                put_json(
                        out, "oneOf",
                        kind == PUBLISHED_TOOL
                                ? "[{\"required\":[\"code\"]},{\"required\":[\"file\"]},{\"required\":[\"run\",\"inputSchema\"]}]"
                                : "[{\"required\":[\"code\"]},{\"required\":[\"file\"]}]");
                json_out_end(out, '}');
        }
        json_out_end(out, '}');
        json_out_end(out, '}');
}

/* ---- what a reload cannot change ---- */

static const struct config_key *find_row(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (rows[i].place == CONFIG_TOP && rows[i].name && strcmp(rows[i].name, name) == 0)
                        return &rows[i];
        }
        return NULL;
}

static bool has_changed(const struct config_key *key, const struct config *a,
                        const struct config *b)
{
        const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;

        if (!config_is_text(key))
                return key->size > 0 && memcmp(x, y, key->size) != 0;
        const char *one = *(const char *const *)x, *two = *(const char *const *)y;
        return one && two ? strcmp(one, two) != 0 : one != two;
}

size_t config_changed_at_restart(const struct config *before, const struct config *now,
                                 char ret[CONFIG_CHANGED_MAX])
{
        const char *last = "";
        size_t n = 0, length = 0;

        *ret = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct config_key *key = &rows[i];
                const struct config_key *of = key->part_of ? find_row(key->part_of) : key;
                if (key->place != CONFIG_TOP || !of || of->takes != CONFIG_RESTART ||
                    !has_changed(key, before, now) || strcmp(of->name, last) == 0)
                        continue;
                last = of->name;
                length += (size_t)snprintf(ret + length, CONFIG_CHANGED_MAX - length, "%s%s",
                                           n++ > 0 ? ", " : "", last);
                if (length >= CONFIG_CHANGED_MAX)
                        break;
        }
        return n;
}
