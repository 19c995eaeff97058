/* yyjson with limits, raw numbers and error messages. */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

enum { NAMES_FEW = 12 }; /* are compared each with each */

/* yyjson keeps the values of a document in one array, parents before children, each container with
 * the distance to its end: depth is found by walking that array once with a stack of ends. */
static bool depth_fits(yyjson_doc *doc)
{
        yyjson_val *ends[JSON_DEPTH_MAX] _uninitialized_;
        yyjson_val *value = yyjson_doc_get_root(doc);
        yyjson_val *last = value + yyjson_doc_get_val_count(doc);
        size_t depth = 0;

        for (; value < last; value++) {
                while (depth > 0 && value >= ends[depth - 1])
                        depth--;
                if (!yyjson_is_ctn(value))
                        continue;
                if (depth == JSON_DEPTH_MAX)
                        return false;
                ends[depth++] = unsafe_yyjson_get_next(value);
        }
        return true;
}

static int parse(const char *data, size_t n, yyjson_read_flag flags, bool lines, yyjson_doc **ret,
                 struct error *err)
{
        yyjson_read_err why = {};
        _cleanup_json_ yyjson_doc *doc = yyjson_read_opts(
                (char *)data, n, flags | YYJSON_READ_NUMBER_AS_RAW, NULL, &why);

        if (!doc && why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
                return error_errno(err, ENOMEM, "parse JSON");
        if (!doc && lines) {
                size_t line = 0, column = 0, character = 0;
                yyjson_locate_pos(data, n, why.pos, &line, &column, &character);
                return error_set(err, EBADMSG, "line %zu, column %zu: %s", line, column, why.msg);
        }
        if (!doc)
                return error_set(err, EBADMSG, "not JSON at byte %zu: %s", why.pos, why.msg);
        if (!depth_fits(doc))
                return error_set(err, EBADMSG, "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
        *ret = take_ptr(doc);
        return 0;
}

/* The offset after a string, from after its opening quote. */
static size_t skip_string(const char *data, size_t at, size_t n)
{
        while (at < n) {
                const char *quote = memchr(data + at, '"', n - at);
                if (!quote)
                        return n;
                size_t end = (size_t)(quote - data), escapes = 0;
                while (end - escapes > at && data[end - escapes - 1] == '\\')
                        escapes++;
                at = end + 1;
                if (escapes % 2 == 0)
                        return at;
        }
        return n;
}

/* Whether a document can have more values than this, by what separates them. yyjson would take
 * memory for all of them first. */
static bool values_fit(const char *data, size_t n, size_t most)
{
        size_t values = 1;

        /* The shortest value with its comma has two bytes, but an opening bracket has one. */
        if (n <= most)
                return true;
        for (size_t at = 0; at < n;) {
                char c = data[at++];
                if (c == '"')
                        at = skip_string(data, at, n);
                else if ((c == ',' || c == ':' || c == '[' || c == '{') && ++values > most)
                        return false;
        }
        return true;
}

int json_parse_bounded(const char *data, size_t n, size_t values_max, yyjson_doc **ret,
                       struct error *err)
{
        if (!values_fit(data, n, values_max))
                return error_set(err, EBADMSG, "JSON of more than %zu values", values_max);
        return parse(data, n, YYJSON_READ_NOFLAG, false, ret, err);
}

int json_parse(const char *data, size_t n, yyjson_doc **ret, struct error *err)
{
        return json_parse_bounded(data, n, JSON_VALUES_MAX, ret, err);
}

int json_parse_config(const char *data, size_t n, yyjson_doc **ret, struct error *err)
{
        static const char bom[] = {'\xef', '\xbb', '\xbf'};

        if (n >= sizeof(bom) && memcmp(data, bom, sizeof(bom)) == 0) {
                data += sizeof(bom);
                n -= sizeof(bom);
        }
        return parse(data, n, YYJSON_READ_ALLOW_COMMENTS | YYJSON_READ_ALLOW_TRAILING_COMMAS, true,
                     ret, err);
}

const char *json_string(yyjson_val *object, const char *key, size_t *length)
{
        yyjson_val *value = yyjson_obj_get(object, key);
        if (!yyjson_is_str(value))
                return NULL;
        if (length)
                *length = yyjson_get_len(value);
        return yyjson_get_str(value);
}

bool json_is_number(yyjson_val *value)
{
        return yyjson_is_raw(value) || yyjson_is_num(value);
}

bool json_is_integer(yyjson_val *value)
{
        if (!yyjson_is_raw(value))
                return yyjson_is_int(value);
        return strcspn(yyjson_get_raw(value), ".eE") == yyjson_get_len(value);
}

int json_double(yyjson_val *value, double *ret)
{
        if (yyjson_is_num(value)) {
                *ret = yyjson_get_num(value);
                return 0;
        }
        if (!yyjson_is_raw(value))
                return -EINVAL;
        /* Raw text is a JSON number followed by what ends it, so strtod() stops in time. */
        double d = strtod(yyjson_get_raw(value), NULL);
        if (!isfinite(d))
                return -ERANGE;
        *ret = d;
        return 0;
}

int json_int64(yyjson_val *value, int64_t *ret)
{
        if (yyjson_is_int(value)) {
                if (yyjson_is_uint(value) && yyjson_get_uint(value) > INT64_MAX)
                        return -ERANGE;
                *ret = yyjson_get_sint(value);
                return 0;
        }
        if (!yyjson_is_raw(value))
                return -EINVAL;
        const char *text = yyjson_get_raw(value);
        size_t length = yyjson_get_len(value);
        if (strcspn(text, ".eE") < length)
                return -EINVAL;
        errno = 0;
        long long n = strtoll(text, NULL, 10);
        if (errno == ERANGE)
                return -ERANGE;
        *ret = n;
        return 0;
}

bool json_fits_doubles(yyjson_val *value)
{
        const int64_t most = (INT64_C(1) << 53) - 1;
        double d;
        int64_t n;

        /* The values of a container follow it in memory. */
        for (const yyjson_val *end = unsafe_yyjson_get_next(value); value < end; value++) {
                int r = 0;
                if (json_is_integer(value))
                        r = json_int64(value, &n) < 0 || n < -most || n > most ? -ERANGE : 0;
                else if (json_is_number(value))
                        r = json_double(value, &d);
                if (r < 0)
                        return false;
        }
        return true;
}

/* ---- equal names ---- */

static int compare_names(const void *a, const void *b)
{
        yyjson_val *const *x = a, *const *y = b;
        size_t n = yyjson_get_len(*x), m = yyjson_get_len(*y);

        return n != m ? (n < m ? -1 : 1) : memcmp(yyjson_get_str(*x), yyjson_get_str(*y), n);
}

static yyjson_val *equal_of(yyjson_val *const names[], size_t n)
{
        for (size_t i = 1; i < n; i++) {
                for (size_t j = 0; j < i; j++) {
                        if (compare_names(&names[i], &names[j]) == 0)
                                return names[i];
                }
        }
        return NULL;
}

/* A sort needs no random key, as a table of hashes would. */
static int equal_of_many(yyjson_val *object, yyjson_val **ret)
{
        _cleanup_free_ yyjson_val **names = malloc(yyjson_obj_size(object) * sizeof(void *));
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        size_t n = 0;

        if (!names)
                return -ENOMEM;
        for (yyjson_val *name; (name = yyjson_obj_iter_next(&iter));)
                names[n++] = name;
        qsort(names, n, sizeof(void *), compare_names);
        for (size_t i = 1; i < n && !*ret; i++)
                *ret = compare_names(&names[i - 1], &names[i]) == 0 ? names[i] : NULL;
        return 0;
}

static int find_equal(yyjson_val *object, yyjson_val **ret)
{
        yyjson_val *names[NAMES_FEW] _uninitialized_;
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        size_t n = 0;

        if (yyjson_obj_size(object) > NAMES_FEW)
                return equal_of_many(object, ret);
        for (yyjson_val *name; (name = yyjson_obj_iter_next(&iter));)
                names[n++] = name;
        *ret = equal_of(names, n);
        return 0;
}

int json_check_names(yyjson_val *value, const yyjson_val *except, struct error *err)
{
        const yyjson_val *end = value ? unsafe_yyjson_get_next(value) : NULL;
        yyjson_val *found = NULL;
        int r = 0;

        /* The values of a container follow it in memory. */
        while (value < end && r >= 0 && !found) {
                if (value == except) {
                        value = unsafe_yyjson_get_next(value);
                        continue;
                }
                if (yyjson_is_obj(value))
                        r = find_equal(value, &found);
                value++;
        }
        if (r < 0)
                return error_errno(err, -r, "check the names");
        return found ? error_set(err, ENOTUNIQ, "two members of an object are named \"%.100s\"",
                                 yyjson_get_str(found))
                     : 0;
}

int json_append(struct buffer *b, yyjson_val *value)
{
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        if (yyjson_is_raw(value))
                return buffer_append(b, yyjson_get_raw(value), yyjson_get_len(value));
        if (yyjson_is_str(value))
                return json_append_string(b, yyjson_get_str(value), yyjson_get_len(value));
        int r = json_write(value, &text, &n);
        return r < 0 ? r : buffer_append(b, text, n);
}

int json_write(yyjson_val *value, char **ret, size_t *n)
{
        yyjson_write_err why = {};
        char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, NULL, n, &why);

        if (!text)
                return why.code == YYJSON_WRITE_ERROR_MEMORY_ALLOCATION ? -ENOMEM : -EINVAL;
        *ret = text;
        return 0;
}

/* The number of bytes at the front that need no escape in a JSON string. */
static size_t plain_run(const unsigned char *s, size_t n)
{
        size_t at = 0;

        while (at < n) {
                int length = s[at] >= 0x80 ? utf8_next(s + at, n - at) : 1;
                if (length <= 0 || s[at] < ' ' || s[at] == '"' || s[at] == '\\')
                        break;
                at += (size_t)length;
        }
        return at;
}

/* Writes the escape for the first character. Of bytes that are not UTF-8 it writes U+FFFD for all, or a lone
 * surrogate for the first one. Returns how many bytes were consumed, or negative errno. */
static int append_escaped(struct buffer *b, const unsigned char *s, size_t n, bool surrogates)
{
        static const char letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                       ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
        static const char hex[] = "0123456789ABCDEF";
        int r, length = s[0] >= 0x80 ? utf8_next(s, n) : 1;

        if (length < 1 && surrogates) {
                length = -1;
                r = buffer_printf(b, "\\udc%02x", s[0]);
        } else if (length < 1)
                r = buffer_append_text(b, "\xef\xbf\xbd");
        else if (letters[s[0]])
                r = buffer_append(b, (const char[]){'\\', letters[s[0]]}, 2);
        else
                r = buffer_append(
                        b, (const char[]){'\\', 'u', '0', '0', hex[s[0] >> 4], hex[s[0] & 15]}, 6);
        return r < 0 ? r : length == 0 ? (int)n : length < 0 ? -length : 1;
}

static int append_string(struct buffer *b, const char *text, size_t n, bool surrogates)
{
        const unsigned char *s = (const unsigned char *)text;
        size_t before = b->length, at = 0;
        int r = buffer_append(b, "\"", 1);

        while (r >= 0 && at < n) {
                size_t run = plain_run(s + at, n - at);
                r = buffer_append(b, s + at, run);
                at += run;
                if (r >= 0 && at < n)
                        r = append_escaped(b, s + at, n - at, surrogates);
                if (r > 0)
                        at += (size_t)r;
        }
        if (r >= 0)
                r = buffer_append(b, "\"", 1);
        if (r < 0)
                b->length = before;
        return r < 0 ? r : 0;
}

int json_append_string(struct buffer *b, const char *text, size_t n)
{
        return append_string(b, text, n, false);
}

int json_append_bytes(struct buffer *b, const char *bytes, size_t n)
{
        return append_string(b, bytes, n, true);
}

/* ---- a document that can be changed ---- */

static yyjson_mut_doc *doc_of(const struct json_tree *tree)
{
        return (yyjson_mut_doc *)(uintptr_t)tree;
}

struct json_tree *json_tree_new(yyjson_val *root)
{
        yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
        yyjson_mut_val *copy = !doc   ? NULL
                               : root ? yyjson_val_mut_copy(doc, root)
                                      : yyjson_mut_obj(doc);

        if (!copy) {
                yyjson_mut_doc_free(doc);
                return NULL;
        }
        yyjson_mut_doc_set_root(doc, copy);
        return (struct json_tree *)doc;
}

struct json_tree *json_tree_free(struct json_tree *tree)
{
        yyjson_mut_doc_free(doc_of(tree));
        return NULL;
}

int json_tree_put(struct json_tree *tree, const char *pointer, const char *json, size_t n)
{
        _cleanup_json_ yyjson_doc *value = NULL;
        yyjson_ptr_ctx context = {};
        yyjson_ptr_err why = {};

        int r = json_parse(json, n, &value, NULL);
        if (r < 0)
                return r;
        yyjson_mut_val *copy = yyjson_val_mut_copy(doc_of(tree), yyjson_doc_get_root(value));
        if (!copy)
                return -ENOMEM;
        if (yyjson_mut_doc_ptr_setx(doc_of(tree), pointer, strlen(pointer), copy, true, &context,
                                    &why))
                return 0;
        return why.code == YYJSON_PTR_ERR_MEMORY_ALLOCATION ? -ENOMEM : -ENOENT;
}

int json_tree_merge(struct json_tree *tree, yyjson_val *patch)
{
        yyjson_mut_doc *doc = doc_of(tree);
        yyjson_mut_val *copy = yyjson_val_mut_copy(doc, patch);
        yyjson_mut_val *whole = copy ? yyjson_mut_merge_patch(doc, yyjson_mut_doc_get_root(doc),
                                                              copy)
                                     : NULL;

        if (!whole)
                return -ENOMEM;
        yyjson_mut_doc_set_root(doc, whole);
        return 0;
}

void json_tree_remove(struct json_tree *tree, const char *const *keys, const char *name)
{
        yyjson_mut_val *at = yyjson_mut_doc_get_root(doc_of(tree));

        for (; *keys; keys++)
                at = yyjson_mut_obj_get(at, *keys);
        yyjson_mut_obj_remove_key(at, name);
}

bool json_tree_equals(const struct json_tree *a, const struct json_tree *b)
{
        return yyjson_mut_equals(yyjson_mut_doc_get_root(doc_of(a)),
                                 yyjson_mut_doc_get_root(doc_of(b)));
}

int json_tree_write(const struct json_tree *tree, char **ret, size_t *n)
{
        char *text = yyjson_mut_write(doc_of(tree), YYJSON_WRITE_PRETTY, n);

        if (!text)
                return -ENOMEM;
        *ret = text;
        return 0;
}
