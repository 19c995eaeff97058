/* Images in the RESULT of published code. */
#include "supervisor/session/cell/result-images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Called with each block that has an image, until it returns a negative errno. */
struct visit {
        int (*visit)(struct visit *v, yyjson_val *block);
        const struct cell_outcome *outcome;
        struct cell_image *found;
        size_t n;
        struct error *err;
};

static int visit_block(struct visit *v, yyjson_val *block)
{
        size_t n = 0;

        return cell_picture_of_block(block, &n) ? v->visit(v, block) : 0;
}

static int visit_blocks(struct visit *v, yyjson_val *list)
{
        yyjson_val *block;
        size_t i, n;
        int r = 0;

        yyjson_arr_foreach (list, i, n, block) {
                r = visit_block(v, block);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A message of a prompt has a block; one of a question may have a list of them, in which results of tools have lists again. */
static int visit_messages(struct visit *v, yyjson_val *messages)
{
        yyjson_val *message, *block;
        size_t i, n, k, n_blocks;
        int r = 0;

        yyjson_arr_foreach (messages, i, n, message) {
                yyjson_val *content = yyjson_obj_get(message, "content");
                r = yyjson_is_arr(content) ? visit_blocks(v, content) : visit_block(v, content);
                if (r >= 0)
                        r = visit_blocks(v, yyjson_obj_get(content, "content"));
                yyjson_arr_foreach (content, k, n_blocks, block)
                        if (r >= 0)
                                r = visit_blocks(v, yyjson_obj_get(block, "content"));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int visit_questions(struct visit *v)
{
        yyjson_val *key, *request;
        size_t i, n;
        int r = 0;

        yyjson_obj_foreach (v->outcome->requests, i, n, key, request) {
                yyjson_val *params = yyjson_obj_get(request, "params");
                r = visit_messages(v, yyjson_obj_get(params, "messages"));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int visit_resources(struct visit *v)
{
        yyjson_val *list = yyjson_obj_get(v->outcome->output, "contents"), *resource;
        size_t i, n, length = 0;

        yyjson_arr_foreach (list, i, n, resource) {
                int r = cell_picture_of_resource(resource, &length) ? v->visit(v, resource) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int visit_all(struct visit *v)
{
        yyjson_val *output = v->outcome->output;

        int r = visit_blocks(v, yyjson_obj_get(output, "content"));
        if (r >= 0)
                r = visit_messages(v, yyjson_obj_get(output, "messages"));
        if (r >= 0)
                r = visit_resources(v);
        return r < 0 ? r : visit_questions(v);
}

static int add(struct visit *v, yyjson_val *block)
{
        if (!v->found)
                v->found = calloc(CELL_DISPLAYS_MAX, sizeof(*v->found));
        if (!v->found)
                return -ENOMEM;
        if (v->n < CELL_DISPLAYS_MAX)
                v->found[v->n++].block = block;
        return 0;
}

int result_images_take(struct cell_outcome *outcome)
{
        struct visit v = {.visit = add, .outcome = outcome};

        int r = visit_all(&v);
        outcome->images = v.found;
        outcome->n_images = v.n;
        return r;
}

const struct cell_picture *result_images_find(const struct cell_outcome *o, yyjson_val *block)
{
        static const struct cell_picture unchecked;

        for (size_t i = 0; i < o->n_images; i++)
                if (o->images[i].block == block)
                        return &o->images[i].picture;
        return &unchecked;
}

static int correct(struct visit *v, yyjson_val *block)
{
        const struct cell_picture *picture = result_images_find(v->outcome, block);
        yyjson_val *resource = cell_picture_resource(block);
        char why[CELL_PICTURE_TEXT_MAX];

        if (resource) {
                cell_picture_correct_resource(picture, resource);
                return 0;
        }
        if (!cell_picture_is_shown(picture)) {
                cell_picture_describe(picture, why);
                return error_set(v->err, EBADMSG, "an image cannot be sent: %s", why);
        }
        if (picture->made)
                yyjson_set_strn(yyjson_obj_get(block, "data"), picture->made,
                                picture->answer.made_length);
        if (!yyjson_set_str(yyjson_obj_get(block, "mimeType"), cell_picture_sent_type(picture)))
                return error_set(v->err, EBADMSG, "an image needs a mimeType");
        return 0;
}

int result_images_correct_questions(const struct cell_outcome *outcome, struct error *err)
{
        struct visit v = {.visit = correct, .outcome = outcome, .err = err};

        return visit_questions(&v);
}
