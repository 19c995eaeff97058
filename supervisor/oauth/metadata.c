/* Parses the JSON documents of OAuth. */
#include "supervisor/oauth/metadata.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/percent.h"

static const char *const method_names[OAUTH_METHOD_MAX] = {
        [OAUTH_NONE] = "none",
        [OAUTH_BASIC] = "client_secret_basic",
        [OAUTH_POST] = "client_secret_post",
        [OAUTH_PRIVATE_KEY] = "private_key_jwt",
};

const char *oauth_method_name(enum oauth_method method)
{
        return method_names[method];
}

int oauth_method_from_name(const char *name)
{
        for (int i = 0; i < OAUTH_METHOD_MAX; i++)
                if (strcmp(method_names[i], name) == 0)
                        return i;
        return -EINVAL;
}

/* Parses a JSON object. *doc owns it. */
static int parse(const char *data, size_t n, yyjson_doc **doc, yyjson_val **ret, struct error *err)
{
        int r = json_parse_bounded(data, n, OAUTH_VALUES_MAX, doc, err);

        *ret = yyjson_doc_get_root(*doc);
        if (r >= 0 && !yyjson_is_obj(*ret))
                r = error_set(err, EBADMSG, "not a JSON object");
        return r;
}

/* Copies a text of printable ASCII that fits. Returns whether there was one. */
static bool copy_printable(yyjson_val *value, char *ret, size_t size)
{
        const char *text = yyjson_is_str(value) ? yyjson_get_str(value) : NULL;
        size_t n = text ? yyjson_get_len(value) : 0;

        *ret = '\0';
        if (n == 0 || n >= size)
                return false;
        for (size_t i = 0; i < n; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        return false;
        memcpy(ret, text, n + 1);
        return true;
}

static bool member(yyjson_val *object, const char *key, char *ret, size_t size)
{
        return copy_printable(yyjson_obj_get(object, key), ret, size);
}

/* A member that must be there. */
static int needed(yyjson_val *object, const char *key, char *ret, size_t size, struct error *err)
{
        if (member(object, key, ret, size))
                return 0;
        return error_set(err, EBADMSG, "it has no \"%s\", or one that is too long or not printable",
                         key);
}

static bool is_true(yyjson_val *object, const char *key)
{
        return yyjson_is_true(yyjson_obj_get(object, key));
}

/* Whether a list of strings has this one. */
static bool list_has(yyjson_val *list, const char *text)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(list);
        yyjson_val *item;

        while ((item = yyjson_arr_iter_next(&iter)))
                if (yyjson_equals_str(item, text))
                        return true;
        return false;
}

/* Scopes that do not fit, and values that are not scopes, are left out. */
static void add_scopes(yyjson_val *list, char *set, size_t size)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(list);
        yyjson_val *item;

        while ((item = yyjson_arr_iter_next(&iter))) {
                char scope[CHALLENGE_SCOPE_MAX + 1];
                if (copy_printable(item, scope, sizeof(scope)))
                        scope_add(set, size, scope);
        }
}

int oauth_parse_resource(const char *data, size_t n, struct oauth_resource *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *root, *item;

        int r = parse(data, n, &doc, &root, err);
        if (r < 0)
                return r;
        *ret = (struct oauth_resource){};
        r = needed(root, "resource", ret->resource, sizeof(ret->resource), err);
        if (r < 0)
                return r;
        yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "authorization_servers"));
        while (ret->n_servers < OAUTH_SERVERS_MAX && (item = yyjson_arr_iter_next(&iter)))
                if (copy_printable(item, ret->servers[ret->n_servers], OAUTH_URL_MAX + 1))
                        ret->n_servers++;
        add_scopes(yyjson_obj_get(root, "scopes_supported"), ret->scopes, sizeof(ret->scopes));
        return 0;
}

/* RFC 8414: client_secret_basic if the list is left out. */
static unsigned int methods_of(yyjson_val *root)
{
        yyjson_val *list = yyjson_obj_get(root, "token_endpoint_auth_methods_supported");
        unsigned int methods = 0;

        for (int i = 0; i < OAUTH_METHOD_MAX; i++)
                if (list_has(list, method_names[i]))
                        methods |= 1u << i;
        return list ? methods : 1u << OAUTH_BASIC;
}

/* RFC 8414: the endpoint may be left out where no grant uses it. The list that is left out has the code. */
static bool needs_browser(yyjson_val *root)
{
        yyjson_val *list = yyjson_obj_get(root, "grant_types_supported");

        return !list || list_has(list, "authorization_code") || list_has(list, "implicit");
}

int oauth_parse_server(const char *data, size_t n, struct oauth_server *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *root;

        int r = parse(data, n, &doc, &root, err);
        if (r < 0)
                return r;
        *ret = (struct oauth_server){
                .s256 = list_has(yyjson_obj_get(root, "code_challenge_methods_supported"), "S256"),
                .names_issuer = is_true(root, "authorization_response_iss_parameter_supported"),
                .takes_documents = is_true(root, "client_id_metadata_document_supported"),
                .offline_access = list_has(yyjson_obj_get(root, "scopes_supported"),
                                           "offline_access"),
                .methods = methods_of(root),
        };
        r = needed(root, "issuer", ret->issuer, sizeof(ret->issuer), err);
        if (r >= 0 && needs_browser(root))
                r = needed(root, "authorization_endpoint", ret->authorization_endpoint,
                           OAUTH_URL_MAX + 1, err);
        else
                member(root, "authorization_endpoint", ret->authorization_endpoint,
                       OAUTH_URL_MAX + 1);
        if (r >= 0)
                r = needed(root, "token_endpoint", ret->token_endpoint, sizeof(ret->token_endpoint),
                           err);
        if (r < 0)
                return r;
        member(root, "registration_endpoint", ret->registration_endpoint, OAUTH_URL_MAX + 1);
        member(root, "revocation_endpoint", ret->revocation_endpoint, OAUTH_URL_MAX + 1);
        if (ret->methods == 0)
                return error_set(err, EBADMSG,
                                 "none of its token_endpoint_auth_methods_supported is known here");
        return 0;
}

int oauth_parse_client(const char *data, size_t n, enum oauth_method asked,
                       struct oauth_client *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *root;
        char method[64];

        int r = parse(data, n, &doc, &root, err);
        if (r < 0)
                return r;
        *ret = (struct oauth_client){.method = asked};
        r = needed(root, "client_id", ret->id, sizeof(ret->id), err);
        if (r < 0)
                return r;
        member(root, "client_secret", ret->secret, sizeof(ret->secret));
        if (member(root, "token_endpoint_auth_method", method, sizeof(method))) {
                int given = oauth_method_from_name(method);
                if (given < 0 || given == OAUTH_PRIVATE_KEY)
                        return error_set(
                                err, EBADMSG,
                                "it wants a token_endpoint_auth_method that is not known here");
                ret->method = (enum oauth_method)given;
        }
        if (ret->method != OAUTH_NONE && *ret->secret == '\0')
                return error_set(err, EBADMSG, "it gave no client_secret");
        return 0;
}

/* As RFC 6749 has it in appendix A.17, a token is of printable characters; a space would end it in a
 * header. */
int oauth_parse_tokens(const char *data, size_t n, struct oauth_tokens *ret, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *root;
        const int64_t longest = 10LL * 366 * 24 * 3600;
        int64_t seconds = 0;

        int r = parse(data, n, &doc, &root, err);
        if (r < 0)
                return r;
        *ret = (struct oauth_tokens){};
        r = needed(root, "access_token", ret->access, sizeof(ret->access), err);
        if (r < 0)
                return r;
        const char *type = json_string(root, "token_type", NULL);
        if (!type || strcasecmp(type, "bearer") != 0) {
                explicit_bzero(ret, sizeof(*ret));
                return error_set(err, EBADMSG, "its token_type is not Bearer");
        }
        member(root, "refresh_token", ret->refresh, sizeof(ret->refresh));
        const char *scope = json_string(root, "scope", NULL);
        if (scope)
                scope_add(ret->scope, sizeof(ret->scope), scope);
        if (json_int64(yyjson_obj_get(root, "expires_in"), &seconds) == 0 && seconds > 0)
                ret->seconds = seconds < longest ? seconds : longest;
        return 0;
}

void oauth_parse_error(const char *data, size_t n, char ret[65])
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *root;

        *ret = '\0';
        if (parse(data, n, &doc, &root, NULL) < 0)
                return;
        if (!member(root, "error", ret, 65) || strspn(ret, letters) != strlen(ret))
                *ret = '\0';
}

/* Decodes application/x-www-form-urlencoded. Returns the length, or -1: invalid, too long, or not
 * printable. */
static int decode(const char *text, size_t n, char *ret, size_t size)
{
        size_t length = 0, used;

        for (size_t i = 0; i < n; i += used) {
                char c;

                used = percent_next(text + i, n - i, &c);
                if (text[i] == '+')
                        c = ' ';
                if (used == 0 || c < ' ' || c > '~' || length + 1 >= size)
                        return -1;
                ret[length++] = c;
        }
        ret[length] = '\0';
        return (int)length;
}

struct parameter {
        const char *name;
        char *to;
        size_t size;
        bool seen;
};

static int take_parameter(struct parameter *list, size_t n_list, const char *pair, size_t n,
                          struct error *err)
{
        const char *equals = memchr(pair, '=', n);
        size_t length = equals ? (size_t)(equals - pair) : n;

        for (size_t i = 0; i < n_list; i++) {
                struct parameter *p = &list[i];
                if (strlen(p->name) != length || memcmp(p->name, pair, length) != 0)
                        continue;
                if (p->seen)
                        return error_set(err, EBADMSG, "it has two parameters \"%s\"", p->name);
                p->seen = true;
                if (!equals || decode(equals + 1, n - length - 1, p->to, p->size) < 0)
                        return error_set(err, EBADMSG, "its parameter \"%s\" is not valid",
                                         p->name);
                return 0;
        }
        return 0;
}

int oauth_parse_redirect(const char *query, size_t n, struct oauth_redirect *ret, struct error *err)
{
        struct parameter list[] = {
                {"code", ret->code, sizeof(ret->code), false},
                {"state", ret->state, sizeof(ret->state), false},
                {"iss", ret->issuer, sizeof(ret->issuer), false},
                {"error", ret->error, sizeof(ret->error), false},
        };
        int r = 0;

        *ret = (struct oauth_redirect){};
        for (size_t at = 0; at <= n && r >= 0;) {
                const char *end = at < n ? memchr(query + at, '&', n - at) : NULL;
                size_t length = (end ? (size_t)(end - query) : n) - at;
                r = take_parameter(list, ARRAY_SIZE(list), query + at, length, err);
                at += length + 1;
        }
        ret->has_issuer = list[2].seen;
        return r;
}
