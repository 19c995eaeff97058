/* The entry of a server, and the answers about it. */
#include "supervisor/access/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"

static const char variable[] = "CLOISTER_ACCESS";

int access_init(struct access *a, struct error *err)
{
        const char *text = getenv(variable);

        *a = (struct access){};
        if (!text)
                return error_set(err, EINVAL, "cloister-access is started by Cloister");
        int r = json_parse(text, strlen(text), &a->doc, err);
        if (r < 0)
                return r;
        unsetenv(variable);
        yyjson_val *entry = yyjson_doc_get_root(a->doc);
        a->name = json_string(entry, "name", NULL);
        a->url = json_string(entry, "url", NULL);
        if (!a->name || !a->url)
                return error_set(err, EINVAL, "%s has no name or no url", variable);
        return 0;
}

void access_done(struct access *a)
{
        yyjson_doc_free(a->doc);
}

int access_append_answer(struct access *a, bool is_renewed, struct buffer *to)
{
        yyjson_val *headers = yyjson_obj_get(yyjson_doc_get_root(a->doc), "headers"), *header;
        struct json_out out = {.to = to};
        size_t i, n;

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "url", a->url);
        json_out_begin(&out, "headers", '[');
        yyjson_arr_foreach (headers, i, n, header)
                json_out_text(&out, NULL, yyjson_get_str(header));
        json_out_end(&out, ']');
        if (*a->token)
                json_out_text(&out, "token", a->token);
        a->n_tokens += *a->token != '\0';
        if (is_renewed)
                json_out_bool(&out, "renewed", true);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append_text(to, "\n");
}
