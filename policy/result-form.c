/* The form of a result: its cases, parts and fields. */
#include "policy/result-form.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/quantity.h"

static const struct {
        const char *name;
        enum result_type type;
        unsigned scopes;
} fields[RESULT_FIELDS] = {
#define FIELD(f, n, t, s) [RESULT_OF_##f] = {(n), RESULT_##t, (s)},
        RESULT_EACH_FIELD(FIELD)
#undef FIELD
};

static const char *const ends[RESULT_ENDS] = {
#define END(e, n) [RESULT_##e] = (n),
        RESULT_EACH_END(END)
#undef END
};

static const char *const images[] = {
        [RESULT_IMAGES_NONE] = "none", [RESULT_IMAGES_LAST] = "last", [RESULT_IMAGES_ALL] = "all"};

enum result_type result_field_type(enum result_field field)
{
        return fields[field].type;
}

const char *result_end_name(enum result_end end)
{
        return ends[end];
}

/* ---- reading what was checked ---- */

/* The field of a name that may stand in one of the scopes; RESULT_FIELDS: there is none. */
static enum result_field find_field(const char *name, size_t n, unsigned scopes)
{
        size_t i = 0;

        while (i < RESULT_FIELDS && !(fields[i].scopes & scopes && strlen(fields[i].name) == n &&
                                      memcmp(fields[i].name, name, n) == 0))
                i++;
        return (enum result_field)i;
}

int result_piece_next(const char **at, const char *end, unsigned scopes, struct result_piece *ret)
{
        const char *p = *at, *close;

        if (p == end)
                return 0;
        while (p < end && *p != '{' && *p != '}')
                p++;
        if (p > *at) {
                *ret = (struct result_piece){.literal = *at, .length = (size_t)(p - *at)};
                *at = p;
                return 1;
        }
        /* "{{" and "}}" are braces. */
        if (end - p >= 2 && p[1] == *p) {
                *ret = (struct result_piece){.literal = p, .length = 1};
                *at = p + 2;
                return 1;
        }
        close = *p == '{' ? memchr(p, '}', (size_t)(end - p)) : NULL;
        if (!close)
                return -EINVAL;
        *ret = (struct result_piece){.field = find_field(p + 1, (size_t)(close - p) - 1, scopes)};
        *at = close + 1;
        return ret->field == RESULT_FIELDS || fields[ret->field].type == RESULT_LIST ? -EINVAL : 1;
}

bool result_is_part(yyjson_val *value)
{
        return yyjson_is_obj(value) && yyjson_obj_get(value, "field");
}

static int find_word(yyjson_val *value, const char *const *words, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (yyjson_equals_str(value, words[i]))
                        return (int)i;
        return -1;
}

static void read_case(yyjson_val *object, struct result_case *ret)
{
        yyjson_val *when = yyjson_obj_get(object, "when"), *one;
        yyjson_val *is_error = yyjson_obj_get(object, "isError");
        int shown = find_word(yyjson_obj_get(object, "images"), images, ARRAY_SIZE(images));
        size_t i, n;

        *ret = (struct result_case){
                .text = yyjson_obj_get(object, "text"),
                .json = yyjson_obj_get(object, "json"),
                .structured = yyjson_obj_get(object, "structured"),
                .join = yyjson_obj_get(object, "join"),
                .is_compact = yyjson_is_false(yyjson_obj_get(object, "indent")),
                .has_is_error = is_error != NULL,
                .is_error = yyjson_is_true(is_error),
                .images = shown < 0 ? RESULT_IMAGES_NONE : (enum result_images)shown,
        };
        if (!when)
                ret->ends = (1u << RESULT_ENDS) - 1;
        if (yyjson_is_str(when))
                ret->ends = 1u << find_word(when, ends, RESULT_ENDS);
        yyjson_arr_foreach (when, i, n, one)
                ret->ends |= 1u << find_word(one, ends, RESULT_ENDS);
        /* A word for a wider end stands for the narrower one too. */
        if (ret->ends & 1u << RESULT_OK)
                ret->ends |= 1u << RESULT_NO_OUTPUT;
        if (ret->ends & 1u << RESULT_REFUSED)
                ret->ends |= 1u << RESULT_NO_SERVER;
}

void result_form_find(yyjson_val *form, enum result_end end, struct result_case *ret)
{
        yyjson_val *object;
        size_t i, n;

        yyjson_arr_foreach (form, i, n, object) {
                read_case(object, ret);
                if (ret->ends & 1u << end)
                        return;
        }
}

void result_part_read(yyjson_val *object, struct result_part *ret)
{
        yyjson_val *name = yyjson_obj_get(object, "field"), *as = yyjson_obj_get(object, "as");
        yyjson_val *limit = yyjson_obj_get(object, "limit");
        yyjson_val *digits = yyjson_obj_get(object, "digits");
        uint64_t bytes = 0;
        int64_t count = -1;

        if (limit)
                quantity_bytes(limit, &bytes);
        if (digits)
                json_int64(digits, &count);
        *ret = (struct result_part){
                .field = find_field(yyjson_get_str(name), yyjson_get_len(name), ~0u),
                .is_stripped = yyjson_equals_str(as, "stripped"),
                .is_json = yyjson_equals_str(as, "json"),
                .before = yyjson_obj_get(object, "before"),
                .after = yyjson_obj_get(object, "after"),
                .empty = yyjson_obj_get(object, "empty"),
                .marker = yyjson_obj_get(object, "marker"),
                .item = yyjson_obj_get(object, "item"),
                .limit = (size_t)bytes,
                .digits = (int)count,
        };
}

/* ---- checks ---- */

struct checking {
        yyjson_val **at;
        struct error *err;
        unsigned scopes;
        bool in_json;
};

__attribute__((format(printf, 3, 4))) static int wrong(const struct checking *c, yyjson_val *at,
                                                       const char *format, ...)
{
        va_list args;
        char text[sizeof(c->err->text)];

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        *c->at = at;
        return error_set(c->err, EINVAL, "%s", text);
}

/* Each member of an object is one of these. */
static int check_members(const struct checking *c, yyjson_val *object, const char *what,
                         const char *const *names)
{
        yyjson_val *key, *value;
        size_t i, n;

        yyjson_obj_foreach (object, i, n, key, value) {
                const char *const *name = names;

                while (*name && !yyjson_equals_str(key, *name))
                        name++;
                if (!*name)
                        return wrong(c, key, "%s has no \"%.60s\"", what, yyjson_get_str(key));
        }
        return 0;
}

static int check_string(const struct checking *c, yyjson_val *text, unsigned scopes)
{
        const char *at = yyjson_get_str(text), *end = at + yyjson_get_len(text), *before = at;
        struct result_piece piece;
        int r;

        while ((r = result_piece_next(&at, end, scopes, &piece)) > 0)
                before = at;
        if (r == 0)
                return 0;
        return wrong(
                c, text,
                "\"%.40s\" names no field that may stand here; a brace that begins none is written twice",
                before);
}

static int check_tree(const struct checking *c, yyjson_val *value, unsigned depth);

static int check_strings(const struct checking *c, yyjson_val *object)
{
        static const char *const names[] = {"before", "after", "marker"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                yyjson_val *text = yyjson_obj_get(object, names[i]);
                if (text && !yyjson_is_str(text))
                        return wrong(c, text, "%s must be a string", names[i]);
        }
        yyjson_val *marker = yyjson_obj_get(object, "marker");
        return marker ? check_string(c, marker, RESULT_IN_MARKER) : 0;
}

/* The options that depend on the type of the field. */
static int check_typed(const struct checking *c, yyjson_val *object, enum result_type type)
{
        yyjson_val *as = yyjson_obj_get(object, "as"), *limit = yyjson_obj_get(object, "limit");
        yyjson_val *digits = yyjson_obj_get(object, "digits");
        uint64_t bytes = 0;
        int64_t count = 0;

        if (as && (type != RESULT_TEXT || !(yyjson_equals_str(as, "stripped") ||
                                            (c->in_json && yyjson_equals_str(as, "json")))))
                return wrong(
                        c, as,
                        "as must be \"stripped\", or in json also \"json\", and its field a text");
        if (limit && (type != RESULT_TEXT || quantity_bytes(limit, &bytes) < 0 || bytes < 1 ||
                      bytes > RESULT_LIMIT_MAX))
                return wrong(c, limit, "limit must be from 1 to %d bytes, and its field a text",
                             RESULT_LIMIT_MAX);
        if (yyjson_obj_get(object, "marker") && !limit)
                return wrong(c, object, "marker needs limit");
        if (digits && (type != RESULT_NUMBER || json_int64(digits, &count) < 0 || count < 0 ||
                       count > RESULT_DIGITS_MAX))
                return wrong(c, digits, "digits must be from 0 to %d, and its field a number",
                             RESULT_DIGITS_MAX);
        return 0;
}

static int check_item(const struct checking *c, yyjson_val *object, enum result_type type,
                      unsigned depth)
{
        const struct checking inside = {c->at, c->err, RESULT_IN_CALL, true};
        yyjson_val *item = yyjson_obj_get(object, "item");

        if (type == RESULT_LIST && !c->in_json)
                return wrong(c, object, "tool_calls can only stand in json");
        if (!item)
                return 0;
        if (type != RESULT_LIST)
                return wrong(c, item, "item belongs to tool_calls");
        return check_tree(&inside, item, depth + 1);
}

static int check_part(const struct checking *c, yyjson_val *object, unsigned depth)
{
        static const char *const names[] = {"field", "as",     "before", "after", "empty",
                                            "limit", "marker", "digits", "item",  NULL};
        yyjson_val *name = yyjson_obj_get(object, "field"),
                   *empty = yyjson_obj_get(object, "empty");
        enum result_field field = yyjson_is_str(name) ? find_field(yyjson_get_str(name),
                                                                   yyjson_get_len(name), c->scopes)
                                                      : RESULT_FIELDS;

        if (field == RESULT_FIELDS)
                return wrong(c, name, "\"%.60s\" is not a field that may stand here",
                             yyjson_is_str(name) ? yyjson_get_str(name) : "");
        if (empty && !c->in_json && !yyjson_is_str(empty))
                return wrong(c, empty, "empty must be a string in a text");
        if (empty && yyjson_is_ctn(empty) && yyjson_get_len(empty) > 0)
                return wrong(c, empty, "empty must be a constant");
        int r = check_members(c, object, "a part", names);
        if (r >= 0)
                r = check_strings(c, object);
        if (r >= 0)
                r = check_typed(c, object, fields[field].type);
        return r < 0 ? r : check_item(c, object, fields[field].type, depth);
}

/* A part of a "json": constants, strings, parts with options. */
static int check_tree(const struct checking *c, yyjson_val *value, unsigned depth)
{
        yyjson_val *key, *one;
        size_t i, n;
        int r = 0;

        if (yyjson_is_str(value))
                return check_string(c, value, c->scopes);
        if (!yyjson_is_ctn(value))
                return 0;
        if (result_is_part(value))
                return check_part(c, value, depth);
        if (depth == RESULT_DEPTH_MAX || yyjson_get_len(value) > RESULT_PARTS_MAX)
                return wrong(c, value, "more than %d levels, or more than %d parts in one of them",
                             RESULT_DEPTH_MAX, RESULT_PARTS_MAX);
        yyjson_obj_foreach (value, i, n, key, one) {
                r = r < 0 ? r : check_tree(c, one, depth + 1);
        }
        yyjson_arr_foreach (value, i, n, one) {
                r = r < 0 ? r : check_tree(c, one, depth + 1);
        }
        return r;
}

static int check_text(const struct checking *c, yyjson_val *list)
{
        yyjson_val *one;
        size_t i, n;
        int r = 0;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) > RESULT_PARTS_MAX)
                return wrong(c, list, "text must be an array of at most %d parts",
                             RESULT_PARTS_MAX);
        yyjson_arr_foreach (list, i, n, one) {
                if (r >= 0 && !yyjson_is_str(one) && !result_is_part(one))
                        r = wrong(c, one, "a part of a text must be a string or {\"field\": …}");
                else if (r >= 0)
                        r = yyjson_is_str(one) ? check_string(c, one, c->scopes)
                                               : check_part(c, one, 0);
        }
        return r;
}

static int refuse_when(const struct checking *c, yyjson_val *when)
{
        char names[256] = "";
        size_t n = 0;

        for (size_t i = 0; i < RESULT_ENDS && n < sizeof(names); i++)
                n += (size_t)snprintf(names + n, sizeof(names) - n, "%s\"%s\"", i > 0 ? ", " : "",
                                      ends[i]);
        return wrong(c, when, "when must be one or several of %s", names);
}

static int check_when(const struct checking *c, yyjson_val *when)
{
        yyjson_val *one;
        size_t i, n;

        if (!yyjson_is_arr(when) || yyjson_arr_size(when) == 0)
                return find_word(when, ends, RESULT_ENDS) >= 0 ? 0 : refuse_when(c, when);
        yyjson_arr_foreach (when, i, n, one) {
                if (find_word(one, ends, RESULT_ENDS) < 0)
                        return refuse_when(c, one);
        }
        return 0;
}

static int check_options(const struct checking *c, yyjson_val *object)
{
        yyjson_val *when = yyjson_obj_get(object, "when"), *join = yyjson_obj_get(object, "join");
        yyjson_val *indent = yyjson_obj_get(object, "indent");
        yyjson_val *is_error = yyjson_obj_get(object, "isError");
        yyjson_val *shown = yyjson_obj_get(object, "images");

        if (join && (!yyjson_is_str(join) || !yyjson_obj_get(object, "text")))
                return wrong(c, join, "join must be a string, and belongs to text");
        if (indent && (!yyjson_is_bool(indent) || !yyjson_obj_get(object, "json")))
                return wrong(c, indent, "indent must be true or false, and belongs to json");
        if (is_error && !yyjson_is_bool(is_error))
                return wrong(c, is_error, "isError must be true or false");
        if (shown && find_word(shown, images, ARRAY_SIZE(images)) < 0)
                return wrong(c, shown, "images must be \"none\", \"last\" or \"all\"");
        return when ? check_when(c, when) : 0;
}

static int check_case(const struct checking *c, yyjson_val *object, bool structured)
{
        static const char *const names[] = {"when",   "text",    "json",       "join", "indent",
                                            "images", "isError", "structured", NULL};
        const struct checking in_text = {c->at, c->err, RESULT_IN_CASE, false};
        const struct checking in_json = {c->at, c->err, RESULT_IN_CASE, true};
        const struct checking in_both = {c->at, c->err, RESULT_IN_CASE | RESULT_IN_STRUCTURED,
                                         true};
        yyjson_val *text = yyjson_obj_get(object, "text"), *json = yyjson_obj_get(object, "json");
        yyjson_val *own = yyjson_obj_get(object, "structured");

        if (!yyjson_is_obj(object) || !text == !json)
                return wrong(c, object, "a case must be an object with either text or json");
        if (structured != (own != NULL) || (own && (!yyjson_is_obj(own) || result_is_part(own))))
                return wrong(c, own ? own : object,
                             "structured must be an object, and in each case or in none");
        int r = check_members(c, object, "a case", names);
        if (r >= 0)
                r = check_options(c, object);
        if (r >= 0)
                r = text ? check_text(&in_text, text) : check_tree(&in_json, json, 0);
        return r < 0 || !own ? r : check_tree(&in_both, own, 0);
}

/* Each end has a case, and each case an end. */
static int check_ends(const struct checking *c, yyjson_val *form)
{
        unsigned left = (1u << RESULT_ENDS) - 1;
        struct result_case one;
        yyjson_val *object;
        size_t i, n, first = 0;

        yyjson_arr_foreach (form, i, n, object) {
                read_case(object, &one);
                if (!(left & one.ends))
                        return wrong(c, object,
                                     "this case is never reached: those before it have its ends");
                left &= ~one.ends;
        }
        while (!(left & 1u << first) && left)
                first++;
        return left ? wrong(c, form,
                            "no case for \"%s\": the last case may leave \"when\" out and so have all the rest",
                            ends[first])
                    : 0;
}

int result_form_check(yyjson_val *form, bool *structured, yyjson_val **at, struct error *err)
{
        const struct checking c = {at, err, RESULT_IN_CASE, false};
        yyjson_val *object;
        size_t i, n;

        if (!yyjson_is_arr(form) || yyjson_arr_size(form) == 0 ||
            yyjson_arr_size(form) > RESULT_CASES_MAX)
                return wrong(&c, form, "must be an array of 1 to %d cases", RESULT_CASES_MAX);
        *structured = yyjson_obj_get(yyjson_arr_get_first(form), "structured");
        yyjson_arr_foreach (form, i, n, object) {
                int r = check_case(&c, object, *structured);
                if (r < 0)
                        return r;
        }
        return check_ends(&c, form);
}

/* ---- JSON Schema ---- */

static void put_raw(struct json_out *out, const char *key, const char *json)
{
        json_out_raw(out, key, json, strlen(json));
}

static void put_words(struct json_out *out, const char *const *words, size_t n)
{
        json_out_begin(out, "enum", '[');
        for (size_t i = 0; i < n; i++)
                json_out_text(out, NULL, words[i]);
        json_out_end(out, ']');
}

/* When: a word, or a list of words. */
static void put_when(struct json_out *out)
{
        json_out_begin(out, "when", '{');
        json_out_begin(out, "anyOf", '[');
        json_out_begin(out, NULL, '{');
        put_words(out, ends, RESULT_ENDS);
        json_out_end(out, '}');
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", "array");
        json_out_int(out, "minItems", 1);
        json_out_begin(out, "items", '{');
        put_words(out, ends, RESULT_ENDS);
        json_out_end(out, '}');
        json_out_end(out, '}');
        json_out_end(out, ']');
        json_out_end(out, '}');
}

/* A part of a text: a string, or an object with "field". */
static void put_part(struct json_out *out)
{
        json_out_begin(out, "items", '{');
        json_out_begin(out, "anyOf", '[');
        put_raw(out, NULL, "{\"type\":\"string\"}");
        json_out_begin(out, NULL, '{');
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        json_out_begin(out, "field", '{');
        json_out_begin(out, "enum", '[');
        for (size_t i = 0; i < RESULT_FIELDS; i++)
                if (fields[i].scopes & RESULT_IN_CASE && fields[i].type != RESULT_LIST)
                        json_out_text(out, NULL, fields[i].name);
        json_out_end(out, ']');
        json_out_end(out, '}');
        put_raw(out, "as", "{\"const\":\"stripped\"}");
        for (size_t i = 0; i < 4; i++)
                put_raw(out, ((const char *const[]){"before", "after", "empty", "marker"})[i],
                        "{\"type\":\"string\"}");
        put_raw(out, "limit", "{\"type\":[\"integer\",\"string\"],\"minimum\":1}");
        put_raw(out, "digits", "{\"type\":\"integer\",\"minimum\":0,\"maximum\":6}");
        json_out_end(out, '}');
        put_raw(out, "required", "[\"field\"]");
        put_raw(out, "additionalProperties", "false");
        json_out_end(out, '}');
        json_out_end(out, ']');
        json_out_end(out, '}');
}

void result_form_schema(struct json_out *out)
{
        json_out_text(out, "type", "array");
        json_out_int(out, "minItems", 1);
        json_out_int(out, "maxItems", RESULT_CASES_MAX);
        json_out_begin(out, "items", '{');
        json_out_text(out, "type", "object");
        json_out_begin(out, "properties", '{');
        put_when(out);
        json_out_begin(out, "text", '{');
        json_out_text(out, "type", "array");
        json_out_int(out, "maxItems", RESULT_PARTS_MAX);
        put_part(out);
        json_out_end(out, '}');
        put_raw(out, "json", "{}");
        put_raw(out, "structured", "{\"type\":\"object\"}");
        put_raw(out, "join", "{\"type\":\"string\"}");
        put_raw(out, "indent", "{\"type\":\"boolean\"}");
        put_raw(out, "isError", "{\"type\":\"boolean\"}");
        json_out_begin(out, "images", '{');
        put_words(out, images, ARRAY_SIZE(images));
        json_out_end(out, '}');
        json_out_end(out, '}');
        put_raw(out, "additionalProperties", "false");
        put_raw(out, "oneOf", "[{\"required\":[\"text\"]},{\"required\":[\"json\"]}]");
        json_out_end(out, '}');
}
