#include "rpc/client-answer.h"

#include <errno.h>
#include <string.h>

#include "base/json-out.h"
#include "base/utf8.h"

enum { ROOT_URI_MAX = 4096, ROOT_NAME_MAX = 1024, NAME_SHOWN = 60 };

static int refuse(struct error *err, const char *why)
{
        return error_set(err, EINVAL, "%s", why);
}

/* ---- forms ---- */

static bool is_choice(yyjson_val *list, yyjson_val *value)
{
        size_t i, n;
        yyjson_val *one;

        yyjson_arr_foreach (list, i, n, one) {
                yyjson_val *text = yyjson_is_obj(one) ? yyjson_obj_get(one, "const") : one;
                if (yyjson_equals_strn(value, yyjson_get_str(text), yyjson_get_len(text)))
                        return true;
        }
        return false;
}

/* Whether n is within two bounds of the field, if it has them. */
static bool is_within(yyjson_val *field, const char *least, const char *most, double n)
{
        double bound;

        if (json_double(yyjson_obj_get(field, least), &bound) >= 0 && n < bound)
                return false;
        return json_double(yyjson_obj_get(field, most), &bound) < 0 || n <= bound;
}

static bool fits_text(yyjson_val *field, yyjson_val *value)
{
        yyjson_val *list = yyjson_obj_get(field, "enum"), *one = yyjson_obj_get(field, "oneOf");

        if (!yyjson_is_str(value))
                return false;
        if ((list && !is_choice(list, value)) || (one && !is_choice(one, value)))
                return false;
        return is_within(field, "minLength", "maxLength",
                         (double)utf8_count(yyjson_get_str(value), yyjson_get_len(value)));
}

static bool fits_list(yyjson_val *field, yyjson_val *value)
{
        yyjson_val *items = yyjson_obj_get(field, "items"), *any = yyjson_obj_get(items, "anyOf"),
                   *one;
        size_t i, n;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > CLIENT_CHOICES_MAX)
                return false;
        yyjson_arr_foreach (value, i, n, one) {
                if (!yyjson_is_str(one) ||
                    !is_choice(any ? any : yyjson_obj_get(items, "enum"), one))
                        return false;
        }
        return is_within(field, "minItems", "maxItems", (double)yyjson_arr_size(value));
}

static bool fits(yyjson_val *field, yyjson_val *value)
{
        const char *type = json_string(field, "type", NULL);
        double number;

        if (strcmp(type, "string") == 0)
                return fits_text(field, value);
        if (strcmp(type, "array") == 0)
                return fits_list(field, value);
        if (strcmp(type, "boolean") == 0)
                return yyjson_is_bool(value);
        if (strcmp(type, "integer") == 0 && !json_is_integer(value))
                return false;
        return json_is_number(value) && json_double(value, &number) >= 0 &&
               is_within(field, "minimum", "maximum", number);
}

static int check_required(yyjson_val *schema, yyjson_val *content, struct error *err)
{
        size_t i, n;
        yyjson_val *name;

        yyjson_arr_foreach (yyjson_obj_get(schema, "required"), i, n, name) {
                if (!yyjson_obj_getn(content, yyjson_get_str(name), yyjson_get_len(name)))
                        return error_set(err, EINVAL, "the field %.*s is missing", NAME_SHOWN,
                                         yyjson_get_str(name));
        }
        return 0;
}

static int check_content(const struct client_request *q, yyjson_val *content, struct error *err)
{
        yyjson_val *schema = yyjson_obj_get(yyjson_doc_get_root(q->doc), "requestedSchema");
        yyjson_val *fields = yyjson_obj_get(schema, "properties"), *key, *value;
        size_t i, n;

        if (!yyjson_is_obj(content) || yyjson_obj_size(content) > CLIENT_FIELDS_MAX)
                return refuse(err, "content must be an object with the fields of the form");
        yyjson_obj_foreach (content, i, n, key, value) {
                yyjson_val *field = yyjson_obj_getn(fields, yyjson_get_str(key),
                                                    yyjson_get_len(key));
                if (!field)
                        return error_set(err, EINVAL, "the form has no field %.*s", NAME_SHOWN,
                                         yyjson_get_str(key));
                if (!fits(field, value))
                        return error_set(err, EINVAL, "the value of %.*s does not fit its schema",
                                         NAME_SHOWN, yyjson_get_str(key));
        }
        return check_required(schema, content, err);
}

static int take_elicitation(const struct client_request *q, yyjson_val *result,
                            struct json_out *out, struct error *err)
{
        yyjson_val *action = yyjson_obj_get(result, "action"),
                   *content = yyjson_obj_get(result, "content");
        bool accepts = yyjson_equals_str(action, "accept");
        int r = 0;

        if (!accepts && !yyjson_equals_str(action, "decline") &&
            !yyjson_equals_str(action, "cancel"))
                return refuse(err, "action must be accept, decline or cancel");
        bool has_data = accepts && q->kind == CLIENT_FORM;
        if (has_data)
                r = check_content(q, content, err);
        if (r < 0)
                return r;
        json_out_begin(out, NULL, '{');
        json_out_value(out, "action", action);
        if (has_data)
                json_out_value(out, "content", content);
        json_out_end(out, '}');
        return 0;
}

/* ---- roots ---- */

static bool is_root(yyjson_val *root)
{
        yyjson_val *name = yyjson_obj_get(root, "name");
        size_t n = 0;
        const char *uri = json_string(root, "uri", &n);

        return uri && n <= ROOT_URI_MAX && strncmp(uri, "file://", 7) == 0 &&
               (!name || (yyjson_is_str(name) && yyjson_get_len(name) <= ROOT_NAME_MAX));
}

static void put_root(struct json_out *out, yyjson_val *root)
{
        yyjson_val *name = yyjson_obj_get(root, "name");

        json_out_begin(out, NULL, '{');
        json_out_value(out, "uri", yyjson_obj_get(root, "uri"));
        if (name)
                json_out_value(out, "name", name);
        json_out_end(out, '}');
}

static int take_roots(yyjson_val *result, struct json_out *out, struct error *err)
{
        yyjson_val *roots = yyjson_obj_get(result, "roots"), *root;
        size_t i, n;

        if (!yyjson_is_arr(roots) || yyjson_arr_size(roots) > CLIENT_ROOTS_MAX)
                return error_set(err, EINVAL, "roots must be a list of at most %d",
                                 CLIENT_ROOTS_MAX);
        json_out_begin(out, NULL, '{');
        json_out_begin(out, "roots", '[');
        yyjson_arr_foreach (roots, i, n, root) {
                if (!is_root(root))
                        return refuse(err, "a root must have a short file:// uri");
                put_root(out, root);
        }
        json_out_end(out, ']');
        json_out_end(out, '}');
        return 0;
}

/* ---- sampling ---- */

static int take_sample(yyjson_val *result, struct json_out *out, struct error *err)
{
        static const char *const members[] = {"role", "content", "model", "stopReason"};
        yyjson_val *reason = yyjson_obj_get(result, "stopReason");

        if (!client_is_message(result))
                return refuse(
                        err,
                        "the answer must have a role, assistant or user, and content, a block or a list of blocks");
        if (!yyjson_is_str(yyjson_obj_get(result, "model")) || (reason && !yyjson_is_str(reason)))
                return refuse(err, "model and stopReason must be strings");
        json_out_begin(out, NULL, '{');
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                yyjson_val *value = yyjson_obj_get(result, members[i]);
                if (value)
                        json_out_value(out, members[i], value);
        }
        json_out_end(out, '}');
        return 0;
}

/* ---- all ---- */

int client_answer_take(const struct client_request *request, yyjson_val *result, struct buffer *to,
                       struct error *err)
{
        struct json_out out = {.to = to};
        int r;

        if (!yyjson_is_obj(result))
                return refuse(err, "the result is not an object");
        if (request->kind == CLIENT_ROOTS)
                r = take_roots(result, &out, err);
        else if (request->kind == CLIENT_SAMPLE)
                r = take_sample(result, &out, err);
        else
                r = take_elicitation(request, result, &out, err);
        r = r < 0 ? r : out.error;
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "the answer is too large");
        return r;
}
