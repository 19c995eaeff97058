/* Names without regard to case. */
#include "policy/rules/names.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

enum { FEW = 12, LONG_S = 0x17f, KELVIN = 0x212a };

static uint32_t fold(uint32_t c)
{
        if (c < 0x80)
                return c >= 'A' && c <= 'Z' ? c + 32 : c;
        if (c == LONG_S)
                return 's';
        if (c == KELVIN)
                return 'k';
        if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3ab && c != 0x3a2) ||
            (c >= 0x410 && c <= 0x42f))
                return c + 32;
        if (c >= 0x400 && c <= 0x40f)
                return c + 80;
        if (c == 0x3c2)
                return 0x3c3; /* the sigma at the end of a word */
        bool is_odd_lower = (c >= 0x100 && c <= 0x137) || (c >= 0x14a && c <= 0x177) ||
                            (c >= 0x1e00 && c <= 0x1eff) || (c >= 0x460 && c <= 0x481) ||
                            (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f);
        bool is_even_lower = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
        if (is_odd_lower)
                return c | 1;
        return is_even_lower ? c + (c & 1) : c;
}

static uint32_t take(const char **text, size_t *n)
{
        int length = utf8_next((const unsigned char *)*text, *n);
        uint32_t c = (unsigned char)**text;

        if (length > 0)
                c = utf8_decode((const unsigned char *)*text, length);
        else
                length = 1;
        *text += length;
        *n -= (size_t)length;
        return fold(c);
}

int names_compare(const char *a, size_t n, const char *b, size_t m)
{
        while (n > 0 && m > 0) {
                uint32_t x = take(&a, &n), y = take(&b, &m);
                if (x != y)
                        return x < y ? -1 : 1;
        }
        return n > 0 ? 1 : m > 0 ? -1 : 0;
}

static int compare_values(const void *a, const void *b)
{
        yyjson_val *const *x = a, *const *y = b;

        return names_compare(yyjson_get_str(*x), yyjson_get_len(*x), yyjson_get_str(*y),
                             yyjson_get_len(*y));
}

static int refuse(const char *a, const char *b, const char *of, struct error *err)
{
        return error_set(
                err, ENOTUNIQ,
                "the name \"%.80s\" differs only in case from \"%.80s\"%s: servers may take one for the other",
                a, b, of);
}

static int check_object(yyjson_val *object, struct error *err)
{
        yyjson_val *few[FEW] _uninitialized_;
        size_t size = yyjson_obj_size(object), n = 0;
        _cleanup_free_ yyjson_val **many = size > FEW ? malloc(size * sizeof(void *)) : NULL;
        yyjson_val **names = size > FEW ? many : few;
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;

        if (!names)
                return error_errno(err, ENOMEM, "check the names");
        while ((name = yyjson_obj_iter_next(&iter))) {
                /* Some parsers of C end it there. */
                if (strlen(yyjson_get_str(name)) != yyjson_get_len(name))
                        return error_set(
                                err, ENOTUNIQ,
                                "the name \"%.80s\" has more after a NUL: servers may take it for another",
                                yyjson_get_str(name));
                names[n++] = name;
        }
        qsort(names, n, sizeof(void *), compare_values);
        for (size_t i = 1; i < n; i++)
                if (compare_values(&names[i - 1], &names[i]) == 0)
                        return refuse(yyjson_get_str(names[i]), yyjson_get_str(names[i - 1]), "",
                                      err);
        return 0;
}

int names_check_pairs(yyjson_val *value, struct rules_work *work, struct error *err)
{
        const yyjson_val *end = value ? unsafe_yyjson_get_next(value) : NULL;
        int r = 0;

        /* The values of a container follow it in memory. */
        for (; value < end && r >= 0; value++)
                if (!rules_work_take(work, 1 + yyjson_obj_size(value) * 4))
                        r = error_set(err, E2BIG, "%s", work->fault);
                else if (yyjson_is_obj(value))
                        r = check_object(value, err);
        return r;
}

/* A member whose name differs from that one in case only. */
static int check_name(yyjson_val *object, const char *text, size_t n, const char *of,
                      struct rules_work *work, struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;

        if (!rules_work_take(work, 1 + yyjson_obj_size(object) / 4))
                return error_set(err, E2BIG, "%s", work->fault);
        while ((name = yyjson_obj_iter_next(&iter))) {
                const char *other = yyjson_get_str(name);
                size_t m = yyjson_get_len(name);
                if ((n != m || memcmp(text, other, n) != 0) &&
                    names_compare(text, n, other, m) == 0)
                        return refuse(other, text, of, err);
        }
        return 0;
}

/* Its depth is that of the pointer. */
static int check_steps(const struct pointer *pointer, size_t step, yyjson_val *value,
                       struct rules_work *work, struct error *err)
{
        int r = 0;

        for (; r >= 0 && value && step < pointer->n; step++) {
                const struct pointer_step *s = &pointer->steps[step];
                if (!s->is_each) {
                        if (yyjson_is_obj(value))
                                r = check_name(value, s->name, s->n, " in a rule", work, err);
                        value = pointer_next(s, value, work);
                } else if (yyjson_is_arr(value)) {
                        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
                        yyjson_val *item;
                        while (r >= 0 && (item = yyjson_arr_iter_next(&iter)))
                                r = check_steps(pointer, step + 1, item, work, err);
                        return r;
                }
        }
        if (r >= 0 && work->fault)
                r = error_set(err, E2BIG, "%s", work->fault);
        return r;
}

int names_check_pointer(const struct pointer *pointer, yyjson_val *value, struct rules_work *work,
                        struct error *err)
{
        return check_steps(pointer, 0, value, work, err);
}

/* Its depth is that of both documents. */
int names_check_schema(yyjson_val *schema, yyjson_val *value, struct rules_work *work,
                       struct error *err)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_obj_get(schema, "properties"));
        yyjson_val *items = yyjson_obj_get(schema, "items");
        yyjson_val *name;
        int r = 0;

        if (yyjson_is_arr(value) && yyjson_is_obj(items)) {
                yyjson_arr_iter each = yyjson_arr_iter_with(value);
                yyjson_val *item;
                while (r >= 0 && (item = yyjson_arr_iter_next(&each)))
                        if (yyjson_is_ctn(item))
                                r = names_check_schema(items, item, work, err);
                return r;
        }
        while (r >= 0 && yyjson_is_obj(value) && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                size_t n = yyjson_get_len(name);
                r = check_name(value, text, n, " of the tool's schema", work, err);
                yyjson_val *inner = yyjson_obj_getn(value, text, n);
                if (r >= 0 && yyjson_is_ctn(inner))
                        r = names_check_schema(yyjson_obj_iter_get_val(name), inner, work, err);
        }
        return r;
}
