/* A login as JSON. */
#include "supervisor/oauth/record.h"

#include <errno.h>
#include <string.h>

#include "base/json-out.h"
#include "base/json.h"

enum { VERSION = 1 };

/* The members that are texts, and where they are. */
static const struct {
        const char *key;
        size_t offset, size;
        bool printable; /* ASCII without blanks */
} texts[] = {
#define TEXT(key, field, printable)                                                                \
        {                                                                                          \
                key, offsetof(struct oauth_record, field),                                         \
                        sizeof(((struct oauth_record *)0)->field), printable                       \
        }
        TEXT("name", name, false),
        TEXT("url", url, true),
        TEXT("resource", resource, true),
        TEXT("issuer", issuer, true),
        TEXT("token_endpoint", token_endpoint, true),
        TEXT("revocation_endpoint", revocation_endpoint, true),
        TEXT("scope", scope, false),
        TEXT("client_id", client.id, true),
        TEXT("client_secret", client.secret, true),
        TEXT("private_key", client.key, true),
        TEXT("key_id", client.key_id, true),
        TEXT("access_token", tokens.access, true),
        TEXT("refresh_token", tokens.refresh, true),
#undef TEXT
};

int oauth_record_append(const struct oauth_record *record, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "version", VERSION);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                const char *text = (const char *)record + texts[i].offset;
                if (*text)
                        json_out_text(&out, texts[i].key, text);
        }
        json_out_text(&out, "method", oauth_method_name(record->client.method));
        json_out_int(&out, "port", record->client.port);
        json_out_bool(&out, "registered", record->registered);
        json_out_bool(&out, "client_credentials", record->credentials);
        json_out_bool(&out, "private", record->private);
        json_out_int(&out, "obtained", record->obtained);
        json_out_int(&out, "expires", record->expires);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : buffer_append_text(to, "\n");
}

static bool is_printable(const char *text, size_t n, bool strict)
{
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)text[i];
                if (c < ' ' || c == 0x7f || (strict && (c == ' ' || c > '~')))
                        return false;
        }
        return true;
}

static int take_texts(yyjson_val *root, struct oauth_record *ret, struct error *err)
{
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                size_t n = 0;
                const char *text = json_string(root, texts[i].key, &n);
                if (!text)
                        continue;
                if (n >= texts[i].size || !is_printable(text, n, texts[i].printable))
                        return error_set(err, EBADMSG, "\"%s\" is not valid", texts[i].key);
                memcpy((char *)ret + texts[i].offset, text, n + 1);
        }
        return 0;
}

static int64_t number(yyjson_val *root, const char *key, int64_t most)
{
        int64_t value = 0;

        if (json_int64(yyjson_obj_get(root, key), &value) < 0 || value < 0 || value > most)
                return 0;
        return value;
}

int oauth_record_parse(const char *data, size_t n, struct oauth_record *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        const int64_t latest = 1LL << 40;

        int r = json_parse_bounded(data, n, OAUTH_VALUES_MAX, &doc, err);
        if (r < 0)
                return r;
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (number(root, "version", VERSION) != VERSION)
                return error_set(err, EBADMSG, "it is of another version of Cloister");
        *ret = (struct oauth_record){
                .registered = yyjson_is_true(yyjson_obj_get(root, "registered")),
                .credentials = yyjson_is_true(yyjson_obj_get(root, "client_credentials")),
                .private = yyjson_is_true(yyjson_obj_get(root, "private")),
                .obtained = number(root, "obtained", latest),
                .expires = number(root, "expires", latest),
        };
        r = take_texts(root, ret, err);
        if (r < 0)
                return r;
        const char *method = json_string(root, "method", NULL);
        int found = method ? oauth_method_from_name(method) : -EINVAL;
        if (found < 0 || !*ret->url || !*ret->issuer || !*ret->token_endpoint || !*ret->client.id ||
            !*ret->resource)
                return error_set(err, EBADMSG, "it is not complete");
        ret->client.method = (enum oauth_method)found;
        ret->client.port = (uint16_t)number(root, "port", UINT16_MAX);
        return 0;
}
