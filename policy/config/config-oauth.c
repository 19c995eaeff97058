/* Reads "oauth". */
#include "policy/config/config-oauth.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/config-internal.h"

enum { TEXT_MAX = 2048, PORT_MIN = 1, PORT_MAX = 65535 };

struct reading {
        struct config_oauth *oauth;
        struct config_complaint *bad;
};

static int wrong(struct reading *r, yyjson_val *at, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static int wrong(struct reading *r, yyjson_val *at, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vsnprintf(r->bad->text, sizeof(r->bad->text), format, args);
        va_end(args);
        r->bad->at = at;
        return 0;
}

/* A string of printable ASCII without blanks. */
static int read_word(struct reading *r, const char *key, yyjson_val *value, char **to)
{
        const char *text = config_text(value);
        size_t n = text ? strlen(text) : 0;

        for (size_t i = 0; i < n; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        n = 0;
        if (n == 0 || n > TEXT_MAX)
                return wrong(r, value,
                             "\"oauth\": %s must be a string of 1 to %d printable characters", key,
                             TEXT_MAX);
        return config_set_text(to, text);
}

static int read_client_id(struct reading *r, const char *key, yyjson_val *value)
{
        return read_word(r, key, value, &r->oauth->client_id);
}

static int read_secret(struct reading *r, const char *key, yyjson_val *value)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
        const char *text = config_text(value);
        size_t n = text ? strlen(text) : 0;

        if (n < 4 || strncmp(text, "${", 2) != 0 || strspn(text + 2, letters) != n - 3 ||
            text[n - 1] != '}')
                return wrong(
                        r, value,
                        "\"oauth\": %s must name a variable, \"${NAME}\"; a file can be named by client_secret_file",
                        key);
        return config_set_text(&r->oauth->client_secret, text);
}

static int read_path(struct reading *r, const char *key, yyjson_val *value, char **to)
{
        const char *text = config_text(value);

        if (!text || (text[0] != '/' && strncmp(text, "~/", 2) != 0 && text[0] != '$'))
                return wrong(r, value, "\"oauth\": %s must be an absolute path, or begin with ~/",
                             key);
        return config_set_text(to, text);
}

static int read_secret_file(struct reading *r, const char *key, yyjson_val *value)
{
        return read_path(r, key, value, &r->oauth->client_secret_file);
}

static int read_key_file(struct reading *r, const char *key, yyjson_val *value)
{
        return read_path(r, key, value, &r->oauth->private_key_file);
}

static int read_key_id(struct reading *r, const char *key, yyjson_val *value)
{
        return read_word(r, key, value, &r->oauth->key_id);
}

static int read_grant(struct reading *r, const char *key, yyjson_val *value)
{
        bool own = yyjson_equals_str(value, "client_credentials");

        if (!own && !yyjson_equals_str(value, "authorization_code"))
                return wrong(
                        r, value,
                        "\"oauth\": %s must be \"authorization_code\" or \"client_credentials\"",
                        key);
        r->oauth->client_credentials = own;
        return 0;
}

static int read_metadata_url(struct reading *r, const char *key, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || strncmp(text, "https://", 8) != 0 || !strchr(text + 8, '/'))
                return wrong(r, value, "\"oauth\": %s must be an https URL with a path", key);
        return read_word(r, key, value, &r->oauth->client_metadata_url);
}

static int read_issuer(struct reading *r, const char *key, yyjson_val *value)
{
        const char *text = config_text(value);

        if (!text || (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0))
                return wrong(r, value, "\"oauth\": %s must be the URL of the authorization server",
                             key);
        return read_word(r, key, value, &r->oauth->issuer);
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

static int read_scopes(struct reading *r, const char *key, yyjson_val *value)
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
                return wrong(r, value, "\"oauth\": %s must be an array of scopes, %d bytes in all",
                             key, TEXT_MAX);
        return config_set_text(&r->oauth->scopes, buffer_bytes(&text));
}

static int read_port(struct reading *r, const char *key, yyjson_val *value)
{
        int64_t port = 0;

        if (json_int64(value, &port) < 0 || port < PORT_MIN || port > PORT_MAX)
                return wrong(r, value, "\"oauth\": %s must be a port, %d to %d", key, PORT_MIN,
                             PORT_MAX);
        r->oauth->redirect_port = (uint16_t)port;
        return 0;
}

static int read_private(struct reading *r, const char *key, yyjson_val *value)
{
        if (!yyjson_is_bool(value))
                return wrong(r, value, "\"oauth\": %s must be true or false", key);
        r->oauth->private = yyjson_get_bool(value);
        return 0;
}

static const struct {
        const char *name;
        int (*read)(struct reading *r, const char *key, yyjson_val *value);
} keys[] = {
        {"client_id", read_client_id},
        {"client_secret", read_secret},
        {"client_secret_file", read_secret_file},
        {"private_key_file", read_key_file},
        {"key_id", read_key_id},
        {"grant", read_grant},
        {"client_metadata_url", read_metadata_url},
        {"issuer", read_issuer},
        {"scopes", read_scopes},
        {"redirect_port", read_port},
        {"private", read_private},
        /* other clients' names for these */
        {"clientId", read_client_id},
        {"clientSecret", read_secret},
        {"callbackPort", read_port},
};

static const char *const names[] = {
        "client_id",
        "client_secret",
        "client_secret_file",
        "client_metadata_url",
        "issuer",
        "scopes",
        "redirect_port",
        "private",
        "private_key_file",
        "key_id",
        "grant",
        NULL,
};

/* A secret goes to the issuer that was named with it, and to no other. */
static int check(struct reading *r, yyjson_val *at)
{
        const struct config_oauth *o = r->oauth;

        int secrets = !!o->client_secret + !!o->client_secret_file + !!o->private_key_file;

        if (secrets > 1)
                return wrong(
                        r, at,
                        "\"oauth\" may have one of client_secret, client_secret_file and private_key_file");
        if (o->key_id && !o->private_key_file)
                return wrong(r, at, "\"oauth\" has a key_id, but no private_key_file");
        if (secrets == 0)
                return o->client_credentials
                               ? wrong(r, at,
                                       "\"oauth\": the grant client_credentials needs a client_secret, a client_secret_file or a private_key_file")
                               : 0;
        if (!o->client_id)
                return wrong(r, at, "\"oauth\" has a secret, but no client_id");
        if (!o->issuer)
                return wrong(
                        r, at,
                        "\"oauth\" has a secret: name its authorization server with \"issuer\"");
        return 0;
}

int config_read_oauth(struct config_reader *reader, const char *where, yyjson_val *value,
                      struct config_oauth *ret, struct config_complaint *bad)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        struct reading r = {ret, bad};
        yyjson_val *name;
        int failed = 0;

        if (!yyjson_is_obj(value))
                return wrong(&r, value, "\"oauth\" must be an object");
        ret->is_set = true;
        while (failed >= 0 && !*bad->text && (name = yyjson_obj_iter_next(&iter))) {
                size_t i = 0;
                while (i < ARRAY_SIZE(keys) && strcmp(keys[i].name, yyjson_get_str(name)) != 0)
                        i++;
                failed = i < ARRAY_SIZE(keys)
                                 ? keys[i].read(&r, keys[i].name, yyjson_obj_iter_get_val(name))
                                 : config_warn_unknown(reader, where, name, names);
        }
        return failed < 0 || *bad->text ? failed : check(&r, value);
}

void config_oauth_done(struct config_oauth *o)
{
        free(o->client_id);
        if (o->client_secret)
                explicit_bzero(o->client_secret, strlen(o->client_secret));
        free(o->client_secret);
        free(o->client_secret_file);
        free(o->private_key_file);
        free(o->key_id);
        free(o->client_metadata_url);
        free(o->issuer);
        free(o->scopes);
        *o = (struct config_oauth){};
}

static int copy_text(char **to, const char *from)
{
        return from ? config_set_text(to, from) : 0;
}

int config_oauth_copy(const struct config_oauth *from, struct config_oauth *ret)
{
        struct config_oauth o = {.is_set = from->is_set,
                                 .redirect_port = from->redirect_port,
                                 .private = from->private,
                                 .client_credentials = from->client_credentials};

        if (copy_text(&o.client_id, from->client_id) < 0 ||
            copy_text(&o.client_secret, from->client_secret) < 0 ||
            copy_text(&o.client_secret_file, from->client_secret_file) < 0 ||
            copy_text(&o.private_key_file, from->private_key_file) < 0 ||
            copy_text(&o.key_id, from->key_id) < 0 ||
            copy_text(&o.client_metadata_url, from->client_metadata_url) < 0 ||
            copy_text(&o.issuer, from->issuer) < 0 || copy_text(&o.scopes, from->scopes) < 0) {
                config_oauth_done(&o);
                return -ENOMEM;
        }
        *ret = o;
        return 0;
}
