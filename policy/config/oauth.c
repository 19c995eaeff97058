/* The keys of "oauth" that need code. */
#include "policy/config/oauth.h"

#include <errno.h>
#include <string.h>

#include "base/buffer.h"

enum { TEXT_MAX = 2048 };

int config_check_oauth_secret(struct config_reading *r, const struct config_key *key,
                              yyjson_val *value)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
        const char *text = *(char **)config_member(key, r->into);
        size_t n = strlen(text);

        if (n < 4 || strncmp(text, "${", 2) != 0 || strspn(text + 2, letters) != n - 3 ||
            text[n - 1] != '}')
                return config_mistake(
                        r, value,
                        "%s must name a variable, \"${NAME}\"; a file can be named by client_secret_file",
                        r->name);
        return 0;
}

int config_check_oauth_path(struct config_reading *r, const struct config_key *key,
                            yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into);

        if (text[0] != '/' && strncmp(text, "~/", 2) != 0 && text[0] != '$')
                return config_mistake(r, value, "%s must be an absolute path, or begin with ~/",
                                      r->name);
        return 0;
}

int config_check_oauth_url(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into);

        if (strncmp(text, "https://", 8) != 0 || !strchr(text + 8, '/'))
                return config_mistake(r, value, "%s must be an https URL with a path", r->name);
        return 0;
}

int config_check_oauth_issuer(struct config_reading *r, const struct config_key *key,
                              yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into);

        if (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0)
                return config_mistake(r, value, "%s must be the URL of the authorization server",
                                      r->name);
        return 0;
}

static int add_scope(struct buffer *to, const char *text)
{
        int r = to->length > 0 ? buffer_append_text(to, " ") : 0;

        return r < 0 ? r : buffer_append_text(to, text);
}

static bool are_scopes(const char *text)
{
        for (; text && *text; text++)
                if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
                        return false;
        return text;
}

int config_read_oauth_scopes(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        yyjson_val *item = yyjson_is_str(value) ? value : yyjson_arr_iter_next(&iter);
        int failed = 0;

        for (; item && failed == 0;
             item = yyjson_is_str(value) ? NULL : yyjson_arr_iter_next(&iter))
                failed = are_scopes(config_text(item)) ? add_scope(&text, config_text(item)) : 1;
        if (failed == 0 && text.length > 0)
                failed = buffer_append(&text, "", 1);
        if (failed == -ENOMEM)
                return failed;
        if (failed != 0 || text.length == 0)
                return config_mistake(r, value, "%s must be an array of scopes, %d bytes in all",
                                      r->name, TEXT_MAX);
        return config_set_text(config_member(key, r->into), buffer_bytes(&text));
}

/* A secret goes to the issuer that was named with it, and to no other. */
static int check(struct config_reading *r, yyjson_val *at)
{
        const struct config_oauth *o = &r->server->oauth;
        int secrets = !!o->client_secret + !!o->client_secret_file + !!o->private_key_file;

        if (secrets > 1)
                return config_mistake(
                        r, at,
                        "oauth may have one of client_secret, client_secret_file and private_key_file");
        if (o->key_id && !o->private_key_file)
                return config_mistake(r, at, "oauth has a key_id, but no private_key_file");
        if (secrets == 0)
                return o->client_credentials
                               ? config_mistake(
                                         r, at,
                                         "oauth: the grant client_credentials needs a client_secret, a client_secret_file or a private_key_file")
                               : 0;
        if (!o->client_id)
                return config_mistake(r, at, "oauth has a secret, but no client_id");
        if (!o->issuer)
                return config_mistake(
                        r, at, "oauth has a secret: name its authorization server with \"issuer\"");
        return 0;
}

int config_read_oauth(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        int e = config_read_object(r, key, value);

        r->server->oauth.is_set = yyjson_is_obj(value);
        return e < 0 || r->wrong ? e : check(r, value);
}
