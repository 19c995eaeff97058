/* The values of the secrets of one profile. */
#include "supervisor/secrets/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/mask.h"
#include "policy/config/types.h"

struct secret_values {
        size_t n;
        struct {
                char *name, *value;
                size_t length;
        } items[CONFIG_SECRETS_MAX];
};

struct secret_values *secret_values_free(struct secret_values *values)
{
        for (size_t i = 0; values && i < values->n; i++) {
                if (values->items[i].value)
                        explicit_bzero(values->items[i].value, values->items[i].length);
                free(values->items[i].value);
                free(values->items[i].name);
        }
        free(values);
        return NULL;
}

/* The document's copies of the strings are cleared too. */
static void clear(yyjson_doc *doc)
{
        yyjson_val *name, *value;
        size_t i, n;

        yyjson_obj_foreach (yyjson_doc_get_root(doc), i, n, name, value) {
                char *text = (char *)(uintptr_t)yyjson_get_str(value);
                if (text)
                        explicit_bzero(text, yyjson_get_len(value));
        }
        yyjson_doc_free(doc);
}

static int add(struct secret_values *values, yyjson_val *name, yyjson_val *value)
{
        size_t n = yyjson_get_len(value), i = values->n;
        char *copy = yyjson_is_str(value) && i < CONFIG_SECRETS_MAX ? malloc(n + 1) : NULL;

        if (!copy)
                return -EINVAL;
        memcpy(copy, yyjson_get_str(value), n);
        copy[n] = '\0';
        values->items[i].value = copy;
        values->items[i].length = n;
        values->items[i].name = strdup(yyjson_get_str(name));
        values->n++;
        return values->items[i].name ? 0 : -ENOMEM;
}

int secret_values_parse(const char *json, size_t n, struct secret_values **ret, struct error *err)
{
        yyjson_doc *doc = NULL;
        yyjson_val *name, *value;
        size_t i, max;
        struct secret_values *values = calloc(1, sizeof(*values));

        int r = values ? json_parse(json, n, &doc, NULL) : -ENOMEM;
        if (r >= 0 && !yyjson_is_obj(yyjson_doc_get_root(doc)))
                r = -EINVAL;
        if (r >= 0) {
                yyjson_obj_foreach (yyjson_doc_get_root(doc), i, max, name, value) {
                        r = r < 0 ? r : add(values, name, value);
                }
        }
        if (doc)
                clear(doc);
        if (r < 0) {
                secret_values_free(values);
                return error_set(err, -r,
                                 "the values of secrets are not what cloister-access writes");
        }
        *ret = values;
        return 0;
}

void secret_values_mask(const struct secret_values *values)
{
        for (size_t i = 0; i < values->n; i++)
                mask_add(values->items[i].value);
}

const char *secret_values_find(const struct secret_values *values, const char *name, size_t *n)
{
        for (size_t i = 0; values && i < values->n; i++) {
                if (strcmp(values->items[i].name, name) != 0)
                        continue;
                *n = values->items[i].length;
                return values->items[i].value;
        }
        return NULL;
}
