/* "secrets" of a profile. */
#include "policy/config/secret-keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/keys.h"
#include "policy/network-rules.h"

enum { SECRET_NAME_MAX = 64, PATH_MAX_BYTES = 4000, WHERE_MAX = 128 };

#define NAME_FORM "1 to 64 letters, digits and _, and does not begin with a digit"

static bool is_variable(const char *text)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
        size_t n = strlen(text);

        return n > 0 && n <= SECRET_NAME_MAX && strspn(text, letters) == n &&
               !(text[0] >= '0' && text[0] <= '9');
}

int config_check_secret_from(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        const struct config_secret_from *from = config_member(key, r->into);
        int n = (from->env != NULL) + (from->file != NULL) + (from->command != NULL) +
                (from->credential != NULL);
        const char *wrong = NULL;

        if (n != 1)
                wrong = "from must have one of \"env\", \"file\", \"command\" and \"credential\"";
        else if (from->env && !is_variable(from->env))
                wrong = "from.env must be the name of a variable: " NAME_FORM;
        else if (from->file && from->file[0] != '/' && strncmp(from->file, "~/", 2) != 0)
                wrong = "from.file must be an absolute path, or begin with ~/";
        else if (from->file && strlen(from->file) > PATH_MAX_BYTES)
                wrong = "from.file is longer than 4000 bytes";
        else if (from->command && !from->command[0])
                wrong = "from.command must be an array: [\"PROGRAM\", \"ARGUMENT\", …]";
        else if (from->credential &&
                 (strchr(from->credential, '/') || strlen(from->credential) > 255))
                wrong = "from.credential must be the name of a credential of the service";
        if (!wrong)
                return 0;
        config_reset(key, r->into);
        return config_mistake(r, value, "%s", wrong);
}

/* ---- arguments ---- */

/* RFC 6901; "" is the whole document, which is an object. */
static bool is_pointer(const char *text)
{
        if (*text != '/')
                return false;
        for (; *text; text++)
                if (*text == '~' && text[1] != '0' && text[1] != '1')
                        return false;
        return true;
}

static int make_pointer(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                        char **ret)
{
        const char *text = config_text(value);

        if (!text || !is_pointer(text) || strlen(text) > CONFIG_NAME_MAX)
                return config_mistake(
                        r, value,
                        "arguments: item %zu must be a JSON pointer of at most %d bytes, such as \"/password\"",
                        i, CONFIG_NAME_MAX);
        *ret = strdup(text);
        return 0;
}

static bool is_tool(const char *text)
{
        const char *dot = text ? strchr(text, '.') : NULL;

        return dot && dot > text && dot[1] && !strchr(text, '*') && strlen(text) <= CONFIG_NAME_MAX;
}

static int read_argument(struct config_reading *r, struct config_secret *secret, yyjson_val *name,
                         yyjson_val *value)
{
        const char *tool = config_text(name);
        struct config_secret_argument *new = &secret->arguments[secret->n_arguments];

        if (!is_tool(tool))
                return config_mistake(r, name,
                                      "arguments: \"%.100s\" must be one tool: \"SERVER.TOOL\"",
                                      tool ? tool : "");
        if (!yyjson_is_arr(value) || yyjson_arr_size(value) == 0 ||
            yyjson_arr_size(value) > CONFIG_SECRET_POINTERS_MAX)
                return config_mistake(r, value,
                                      "arguments: %s must be an array of 1 to %d JSON pointers",
                                      tool, CONFIG_SECRET_POINTERS_MAX);
        int e = config_read_items(r, value, make_pointer, &new->pointers);
        if (e < 0 || r->wrong)
                return e;
        new->tool = strdup(tool);
        secret->n_arguments += 1;
        _cleanup_free_ char *server = strndup(tool, strcspn(tool, "."));
        if (!new->tool || !server)
                return config_no_memory(r->reader);
        return config_refer(r->reader, CONFIG_SERVER_OF_PROFILE, r->profile->name, server, name);
}

int config_read_secret_arguments(struct config_reading *r, const struct config_key *key,
                                 yyjson_val *value)
{
        struct config_secret *secret = r->into;
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        size_t n = yyjson_obj_size(value);
        yyjson_val *name;
        int e = 0;

        config_reset(key, secret);
        if (!yyjson_is_obj(value) || n == 0 || n > CONFIG_SECRET_TOOLS_MAX)
                return config_mistake(
                        r, value,
                        "arguments must be an object of 1 to %d tools: {\"mail.connect\": [\"/password\"]}",
                        CONFIG_SECRET_TOOLS_MAX);
        secret->arguments = calloc(n, sizeof(*secret->arguments));
        if (!secret->arguments)
                return config_no_memory(r->reader);
        while (e >= 0 && !r->wrong && (name = yyjson_obj_iter_next(&iter))) {
                e = config_check_twice(r->reader, r->where, value, name);
                if (e >= 0)
                        e = read_argument(r, secret, name, yyjson_obj_iter_get_val(name));
        }
        return e;
}

/* ---- hosts of requests ---- */

int config_check_secret_to(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        char **list = *(char ***)config_member(key, r->into);
        struct network_host host;
        uint16_t port;

        if (!list || !*list)
                return config_mistake(r, value, "to must name hosts: [\"api.example.com\"]");
        for (char **item = list; *item; item++) {
                if (!network_authority_parse(*item, strlen(*item), NETWORK_PORT_TLS, &host,
                                             &port) ||
                    host.kind != NETWORK_NAME || port == NETWORK_PORT_HTTP) {
                        int e = config_mistake(
                                r, value,
                                "to: \"%.100s\" must be \"HOST\" or \"HOST:PORT\" for HTTPS, and a name, not an address or a pattern",
                                *item);
                        config_reset(key, r->into);
                        return e;
                }
                char *text = NULL;
                if (asprintf(&text, "%s:%u", host.text, port) < 0)
                        return config_no_memory(r->reader);
                free(*item);
                *item = text;
        }
        return 0;
}

int config_check_secret_in(struct config_reading *r, const struct config_key *key,
                           yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);
        static const char *const places[] = {"header", "query", "body"};

        for (; list && *list; list++) {
                bool is_known = false;
                for (size_t i = 0; i < ARRAY_SIZE(places); i++)
                        is_known |= strcmp(*list, places[i]) == 0;
                if (is_known)
                        continue;
                int e = config_mistake(r, value,
                                       "in: \"%.100s\" must be \"header\", \"query\" or \"body\"",
                                       *list);
                config_reset(key, r->into);
                return e;
        }
        if (yyjson_arr_size(value) > 0)
                return 0;
        config_reset(key, r->into);
        return config_mistake(r, value, "in must name places: [\"header\"]");
}

size_t config_like_prefix(const char *like)
{
        size_t n = strlen(like);

        while (n > 0 && like[n - 1] != '_' && like[n - 1] != '-')
                n--;
        return n;
}

int config_check_secret_like(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
        enum { VARYING_MIN = 8 };
        const char *like = *(char **)config_member(key, r->into);
        size_t n = strlen(like), varying = 0;

        for (size_t i = config_like_prefix(like); i < n; i++)
                varying += like[i] != '.' && like[i] != '~';
        if (varying >= VARYING_MIN && n <= CONFIG_LIKE_MAX && strspn(like, plain) == n)
                return 0;
        config_reset(key, r->into);
        return config_mistake(
                r, value,
                "like must be at most %d letters, digits and . ~ _ -, with at least %d letters or digits behind the last _ or -, such as \"ghp_XXXXXXXXXXXX\"",
                CONFIG_LIKE_MAX, VARYING_MIN);
}

bool config_has_injected(const struct config_profile *profile)
{
        if (profile->network == CONFIG_NETWORK_ALLOW && profile->egress.inspect &&
            profile->egress.inspect[0])
                return true;
        for (size_t i = 0; i < profile->n_secrets; i++)
                if (profile->secrets[i].to && profile->network == CONFIG_NETWORK_ALLOW)
                        return true;
        return false;
}

static int check_host(const struct config_profile *p, const struct config_secret *secret,
                      const char *text, struct error *err)
{
        struct network_rule rule;
        struct network_host host;
        uint16_t port;
        bool is_named = false;

        if (!network_authority_parse(text, strlen(text), 0, &host, &port))
                return error_set(err, EINVAL, "secrets: %s: to: \"%s\"", secret->name, text);
        for (char *const *item = p->egress.allow; item && *item; item++)
                is_named |= !network_rule_parse(*item, &rule) &&
                            network_rules_name(&rule, 1, &host, port);
        return is_named ? 0
                        : error_set(err, EINVAL,
                                    "profile \"%s\": secrets: %s: to: add \"%s\" to network.allow",
                                    p->name, secret->name, text);
}

/* Of the profile itself: one that inherits secrets may have another network, or none. */
static bool has_own_secrets(const struct config *config, const struct config_profile *p)
{
        enum config_form form;
        uint64_t bit = config_key_bit(config_find_key(CONFIG_PROFILE, "secrets", &form));

        return (p->said | (p == config->profiles ? config->top.said : 0)) & bit;
}

static int warn_of_network(struct config *config, const struct config_profile *p,
                           const struct config_secret *secret)
{
        char *text = NULL;
        int r = asprintf(&text,
                         "profile \"%s\": secrets: %s has no use: the profile's network is not "
                         "{\"allow\": …}",
                         p->name, secret->name);

        return config_add_warning(config, r < 0 ? NULL : text);
}

int config_check_secret_hosts(struct config *config, struct error *err)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                size_t n = 0;
                bool is_own = has_own_secrets(config, p);
                bool has_network = p->network == CONFIG_NETWORK_ALLOW;
                for (size_t k = 0; k < p->n_secrets; k++) {
                        const struct config_secret *secret = &p->secrets[k];
                        int r = 0;
                        if (is_own && secret->to && !has_network)
                                r = warn_of_network(config, p, secret);
                        for (char *const *to = secret->to; r >= 0 && to && *to; to++, n++)
                                r = is_own && has_network ? check_host(p, secret, *to, err) : 0;
                        if (r < 0)
                                return r;
                }
                for (char *const *host = has_network ? p->egress.inspect : NULL; host && *host;
                     host++)
                        n++;
                if (n > CONFIG_SECRET_HOSTS_MAX)
                        return error_set(
                                err, EINVAL,
                                "profile \"%s\": more than %d hosts in \"to\" of secrets and with \"inspect\"",
                                p->name, CONFIG_SECRET_HOSTS_MAX);
        }
        return 0;
}

/* ---- secrets ---- */

static bool has_secret(const struct config_profile *profile, const char *name)
{
        for (size_t i = 0; i < profile->n_secrets; i++)
                if (strcmp(profile->secrets[i].name, name) == 0)
                        return true;
        return false;
}

static int read_secret(struct config_reading *r, yyjson_val *name, yyjson_val *value)
{
        const char *text = config_text(name);
        struct config_secret secret = {};
        char path[WHERE_MAX];

        if (!text || !is_variable(text))
                return config_mistake(r, name, "secrets: a name is " NAME_FORM);
        if (!yyjson_is_obj(value))
                return config_mistake(
                        r, value, "secrets: %s must be an object: {\"from\": …, \"to\": …}", text);
        if (has_secret(r->profile, text))
                return config_mistake(r, name, "secrets: %s occurs twice", text);
        snprintf(path, sizeof(path), "secrets: %s.", text);
        struct config_reading inner = *r;
        inner.path = path;
        inner.into = &secret;
        inner.wrong = false;
        int e = config_read_members(&inner, CONFIG_SECRETS, value);
        if (e >= 0 && !inner.wrong && !yyjson_obj_get(value, "from"))
                e = config_mistake(&inner, value, "from is missing: {\"env\": \"VARIABLE\"}");
        if (e >= 0 && !inner.wrong && !secret.to == (secret.n_arguments == 0))
                e = config_mistake(
                        &inner, value,
                        "exactly one of arguments and to is needed: {\"mail.connect\": [\"/password\"]}, or [\"api.example.com\"]; for both, write two secrets");
        if (e >= 0 && !inner.wrong && !secret.to && (secret.in || secret.like))
                e = config_mistake(&inner, value, "in and like need to");
        r->wrong |= inner.wrong;
        secret.name = strdup(text);
        if (e < 0 || inner.wrong || !secret.name) {
                bool is_full = !secret.name;
                config_done(CONFIG_SECRETS, &secret);
                return is_full ? config_no_memory(r->reader) : e;
        }
        r->profile->secrets[r->profile->n_secrets++] = secret;
        return 0;
}

int config_read_secrets(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        size_t n = yyjson_obj_size(value);
        yyjson_val *name;
        int e = 0;

        config_reset(key, r->profile);
        if (!yyjson_is_obj(value) || n > CONFIG_SECRETS_MAX)
                return config_mistake(
                        r, value,
                        "secrets must be an object of at most %d secrets: {\"NAME\": {\"from\": …}}",
                        CONFIG_SECRETS_MAX);
        r->profile->secrets = calloc(n > 0 ? n : 1, sizeof(*r->profile->secrets));
        if (!r->profile->secrets)
                return config_no_memory(r->reader);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter)))
                e = read_secret(r, name, yyjson_obj_iter_get_val(name));
        return e;
}

/* ---- questions about secrets ---- */

const struct config_secret *config_secret_of_variable(const struct config *config,
                                                      const char *variable, size_t n)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                for (size_t k = 0; k < p->n_secrets; k++) {
                        const char *env = p->secrets[k].from.env;
                        if (env && strlen(env) == n && memcmp(env, variable, n) == 0)
                                return &p->secrets[k];
                }
        }
        return NULL;
}

int config_check_variables(const struct config *config, struct error *err)
{
        for (size_t i = 0; i < config->n_published; i++) {
                char *const *env = config->published[i].run.env;
                for (; env && *env; env++) {
                        size_t n = strcspn(*env, "=");
                        const struct config_secret *s = config_secret_of_variable(config, *env, n);
                        if (s)
                                return error_set(
                                        err, EPERM,
                                        "the variable %.*s is the source of the secret %s, and code must not have it: remove it from --pass-through-env (PASSTHROUGH_ENV) or run.env",
                                        (int)n, *env, s->name);
                }
        }
        return 0;
}

bool config_secret_is_for_tool(const struct config_secret_argument *argument, const char *server,
                               const char *tool)
{
        size_t n = strlen(server);

        return strncmp(argument->tool, server, n) == 0 && argument->tool[n] == '.' &&
               strcmp(argument->tool + n + 1, tool) == 0;
}
