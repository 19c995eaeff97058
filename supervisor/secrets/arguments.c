/* Secrets in the arguments of a call. */
#include "supervisor/secrets/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/secret-keys.h"

enum { REFERENCE_MAX = 96 };

bool secret_arguments_concern(const struct config_profile *profile, const char *server,
                              const char *tool)
{
        for (size_t i = 0; i < profile->n_secrets; i++) {
                const struct config_secret *s = &profile->secrets[i];
                for (size_t k = 0; k < s->n_arguments; k++)
                        if (config_secret_is_for_tool(&s->arguments[k], server, tool))
                                return true;
        }
        return false;
}

/* The arguments while values are put into them. */
struct replacing {
        const struct secret_arguments *of;
        struct json_tree *tree; /* NULL: nothing was replaced */
        struct buffer text;     /* a value as JSON */
};

static int put_value(struct replacing *p, const char *pointer, const char *value, size_t n)
{
        if (!p->tree)
                p->tree = json_tree_new(p->of->object);
        int r = p->tree ? json_append_string(&p->text, value, n) : -ENOMEM;
        if (r >= 0)
                r = json_tree_put(p->tree, pointer, buffer_bytes(&p->text), p->text.length);
        if (p->text.length > 0)
                explicit_bzero(buffer_bytes(&p->text), p->text.length);
        buffer_consume(&p->text, p->text.length);
        return r;
}

static int put(struct replacing *p, const struct config_secret *secret, const char *pointer,
               struct error *err)
{
        const struct secret_arguments *of = p->of;
        size_t n = 0;
        const char *value = secret_values_find(of->values, secret->name, &n);

        if (!value)
                return error_set(
                        err, ENOKEY,
                        "the secret %s was not read: start a new session, or restart Cloister",
                        secret->name);
        if (of->n > SECRET_ARGUMENTS_MAX)
                return error_set(err, EMSGSIZE,
                                 "arguments with a secret have at most %d KiB, and not %zu KiB",
                                 SECRET_ARGUMENTS_MAX / 1024, of->n / 1024);
        int r = secret_mask_add(of->mask, of->server, secret->name, value, n);
        if (r == -ENOSPC)
                return error_set(
                        err, ENOSPC,
                        "the secret %s: servers got %d values since the start: restart Cloister",
                        secret->name, SECRET_MASK_MAX);
        if (r >= 0)
                r = put_value(p, pointer, value, n);
        return r < 0 ? error_errno(err, -r, "the secret %s", secret->name) : 0;
}

static int put_at(struct replacing *p, const struct config_secret *secret, char *const *pointers,
                  struct error *err)
{
        char reference[REFERENCE_MAX];
        int r = 0;

        snprintf(reference, sizeof(reference), "${secret:%s}", secret->name);
        for (; *pointers && r >= 0; pointers++)
                if (yyjson_equals_str(yyjson_ptr_get(p->of->object, *pointers), reference))
                        r = put(p, secret, *pointers, err);
        return r;
}

static int finish(struct replacing *p, yyjson_doc **ret, struct error *err)
{
        char *text = NULL;
        size_t n = 0;

        int r = json_tree_write(p->tree, &text, &n);
        if (r >= 0)
                r = json_parse(text, n, ret, err);
        if (text)
                explicit_bzero(text, n);
        free(text);
        return r < 0 ? error_errno(err, -r, "secrets in arguments") : 1;
}

int secret_arguments_replace(const struct secret_arguments *arguments, yyjson_doc **ret,
                             struct error *err)
{
        const struct config_profile *profile = arguments->profile;
        struct replacing p = {.of = arguments, .text = BUFFER_INIT(SECRET_VALUES_BYTES_MAX)};
        int r = 0;

        for (size_t i = 0; i < profile->n_secrets && r >= 0; i++) {
                const struct config_secret *s = &profile->secrets[i];
                for (size_t k = 0; k < s->n_arguments && r >= 0; k++)
                        if (config_secret_is_for_tool(&s->arguments[k], arguments->server,
                                                      arguments->tool))
                                r = put_at(&p, s, s->arguments[k].pointers, err);
        }
        if (r >= 0 && p.tree)
                r = finish(&p, ret, err);
        json_tree_free(p.tree);
        buffer_done(&p.text);
        return r;
}

void secret_arguments_free(yyjson_doc *doc)
{
        size_t n = doc ? yyjson_doc_get_val_count(doc) : 0;
        yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;

        /* All values of a document are one array. */
        for (size_t i = 0; i < n; i++)
                if (yyjson_is_str(root + i))
                        explicit_bzero((char *)(uintptr_t)yyjson_get_str(root + i),
                                       yyjson_get_len(root + i));
        yyjson_doc_free(doc);
}
