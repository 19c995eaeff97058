/* JSON pointers of rules. */
#include "policy/rules/pointer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Reads a step up to the next slash; ~0 is ~, ~1 is /. */
static int read_step(const char *text, size_t n, struct pointer_step *ret, struct error *err)
{
        ret->is_each = n == 1 && *text == '*';
        ret->name = malloc(n + 1);
        if (!ret->name)
                return error_errno(err, ENOMEM, "pointer");
        for (size_t i = 0; i < n; i++) {
                char c = text[i];
                if (c == '~') {
                        if (i + 1 == n || (text[i + 1] != '0' && text[i + 1] != '1'))
                                return error_set(err, EINVAL, "~ must be written ~0");
                        c = text[++i] == '0' ? '~' : '/';
                }
                ret->name[ret->n++] = c;
        }
        ret->name[ret->n] = '\0';
        return 0;
}

int pointer_parse(const char *text, size_t n, struct pointer *ret, struct error *err)
{
        struct pointer pointer = {};
        int r = 0;

        if (n > POINTER_MAX || memchr(text, '\0', n))
                return error_set(err, EINVAL, "is longer than %d bytes, or has a NUL", POINTER_MAX);
        if (n > 0 && *text != '/')
                return error_set(err, EINVAL, "must begin with /, as \"/path\"");
        pointer.steps = calloc(POINTER_STEPS_MAX, sizeof(*pointer.steps));
        if (!pointer.steps)
                return error_errno(err, ENOMEM, "pointer");
        for (size_t at = 0; r >= 0 && at < n;) {
                const char *begin = text + at + 1, *end = memchr(begin, '/', n - at - 1);
                size_t length = end ? (size_t)(end - begin) : n - at - 1;
                if (pointer.n == POINTER_STEPS_MAX)
                        r = error_set(err, EINVAL, "has more than %d steps", POINTER_STEPS_MAX);
                else
                        r = read_step(begin, length, &pointer.steps[pointer.n++], err);
                at += 1 + length;
        }
        if (r < 0)
                pointer_done(&pointer);
        else
                *ret = pointer;
        return r;
}

void pointer_done(struct pointer *pointer)
{
        for (size_t i = 0; i < pointer->n; i++)
                free(pointer->steps[i].name);
        free(pointer->steps);
        *pointer = (struct pointer){};
}

static bool read_index(const struct pointer_step *step, size_t *ret)
{
        *ret = 0;
        if (step->n == 0 || step->n > 9 || (step->n > 1 && step->name[0] == '0'))
                return false;
        for (size_t i = 0; i < step->n; i++) {
                if (step->name[i] < '0' || step->name[i] > '9')
                        return false;
                *ret = *ret * 10 + (size_t)(step->name[i] - '0');
        }
        return true;
}

yyjson_val *pointer_next(const struct pointer_step *step, yyjson_val *value,
                         struct rules_work *work)
{
        size_t i;

        if (!rules_work_take(work, 1 + yyjson_get_len(value) * yyjson_is_ctn(value) / 4))
                return NULL;
        if (yyjson_is_obj(value))
                return yyjson_obj_getn(value, step->name, step->n);
        return yyjson_is_arr(value) && read_index(step, &i) ? yyjson_arr_get(value, i) : NULL;
}

struct walk {
        const struct pointer *pointer;
        struct rules_work *work;
        pointer_visit *visit;
        void *data;
};

/* null has no members for anybody. */
static bool is_of_another_type(const struct pointer_step *step, yyjson_val *value)
{
        size_t i;

        return !yyjson_is_obj(value) && !yyjson_is_null(value) &&
               !(yyjson_is_arr(value) && read_index(step, &i));
}

/* Some servers read such text where they expect an array. */
static bool is_json_text(yyjson_val *value)
{
        const char *text = yyjson_get_str(value);

        if (!text)
                return false;
        text += strspn(text, " \t\r\n");
        return *text == '[' || *text == '{';
}

/* Its depth is that of the pointer. */
static bool walk_from(const struct walk *walk, size_t step, yyjson_val *value)
{
        for (; value && step < walk->pointer->n; step++) {
                const struct pointer_step *s = &walk->pointer->steps[step];
                if (s->is_each ? is_json_text(value) : is_of_another_type(s, value))
                        return walk->visit(walk->data, NULL, true);
                if (!s->is_each) {
                        value = pointer_next(s, value, walk->work);
                        continue;
                }
                if (!yyjson_is_arr(value))
                        continue;
                yyjson_arr_iter iter = yyjson_arr_iter_with(value);
                yyjson_val *item;
                if (yyjson_arr_size(value) == 0)
                        return walk->visit(walk->data, NULL, false);
                while ((item = yyjson_arr_iter_next(&iter)))
                        if (!rules_work_take(walk->work, 1) || !walk_from(walk, step + 1, item))
                                return false;
                return true;
        }
        return walk->visit(walk->data, value, false);
}

void pointer_walk(const struct pointer *pointer, yyjson_val *root, struct rules_work *work,
                  pointer_visit *visit, void *data)
{
        const struct walk walk = {pointer, work, visit, data};

        walk_from(&walk, 0, root);
}
