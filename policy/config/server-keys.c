/*
 * The servers of a config: entries in the format that MCP clients share, {"NAME": {"command",
 * "args", "env", …}}.
 *
 * An entry that cannot be used is stored with its problem, so that a lookup of the server can
 * report why it is not available. Only an entry without a usable name is an error.
 */
#include "policy/config/server-keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "policy/config/server.h"

enum {
        SERVER_NAME_MAX = 64, /* characters */
        HEADERS_MAX = 64,
        HEADER_BYTES_MAX = 16 * 1024,
        TIMEOUT_SUSPECT = 3600 * 1000, /* above it, a number is probably one of milliseconds */
        SCOPES_MAX = 2048,
        WHERE_MAX = 2 * SERVER_NAME_MAX * 4,
};

DEFINE_CLEANUP(char **, config_list_free)

int config_read_command(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const char *text = config_text(value);

        if (yyjson_is_arr(value))
                return config_mistake(r, value,
                                      "command must be a string; its arguments go into \"args\"");
        if (!text || *text == '\0')
                return config_mistake(r, value, "command must be a string that is not empty");
        return config_set_text(&r->server->command, text);
}

/* Also accepts numbers and booleans, as written: other clients do, and their meaning is clear. */
static char *word_of(yyjson_val *value)
{
        if (yyjson_is_bool(value))
                return strdup(yyjson_get_bool(value) ? "true" : "false");
        if (yyjson_is_raw(value))
                return strndup(yyjson_get_raw(value), yyjson_get_len(value));
        return config_text(value) ? strdup(config_text(value)) : NULL;
}

static bool is_word(yyjson_val *value)
{
        return yyjson_is_bool(value) || yyjson_is_raw(value) || config_text(value);
}

static int make_word(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                     char **ret)
{
        if (!is_word(value))
                return config_mistake(r, value, "args: item %zu must be a string", i);
        *ret = word_of(value);
        return 0;
}

int config_read_args(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (!yyjson_is_arr(value))
                return config_mistake(r, value, "args must be an array of strings");
        if (yyjson_arr_size(value) > key->most)
                return config_mistake(r, value, "args has more than %d items", (int)key->most);
        int e = config_read_items(r, value, make_word, &r->server->args);
        if (e >= 0 && !r->wrong)
                r->server->n_args = yyjson_arr_size(value);
        return e;
}

/* "NAME=value" */
static int make_variable(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                         char **ret)
{
        const char *variable = config_text(name);

        if (!variable || *variable == '\0' || strchr(variable, '='))
                return config_mistake(r, name, "%s: \"%s\" cannot be a variable's name", r->name,
                                      variable ? variable : "…");
        if (!is_word(value))
                return config_mistake(r, name, "%s: %s must be a string", r->name, variable);
        _cleanup_free_ char *text = word_of(value);
        if (!text || asprintf(ret, "%s=%s", variable, text) < 0)
                *ret = NULL;
        return 0;
}

/* Codex's "env_vars": names of variables to pass on. */
static int make_passed(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                       char **ret)
{
        yyjson_val *given = yyjson_is_obj(value) ? yyjson_obj_get(value, "name") : value;
        const char *variable = config_text(given);

        if (!variable || *variable == '\0' || strpbrk(variable, "={}"))
                return config_mistake(r, value, "%s: item %zu must be a variable's name", r->name,
                                      i);
        if (asprintf(ret, "%s=${%s:-}", variable, variable) < 0)
                *ret = NULL;
        return 0;
}

static size_t count(char *const *list)
{
        size_t n = 0;

        while (list && list[n])
                n++;
        return n;
}

/* Reads items and adds them to the list, so that two keys can both give some. */
static int add_items(struct config_reading *r, yyjson_val *value, config_item_fn *make, char ***ret)
{
        _cleanup_(cleanup_config_list_free) char **more = NULL;
        size_t n = count(*ret);

        int e = config_read_items(r, value, make, &more);
        if (e < 0 || r->wrong)
                return e;
        char **grown = reallocarray(*ret, n + count(more) + 1, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        memcpy(grown + n, more, (count(more) + 1) * sizeof(char *));
        free(take_ptr(more));
        *ret = grown;
        return 0;
}

int config_read_env(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_server *s = r->server;
        int e;

        if (r->form == CONFIG_VARIABLES) {
                if (!yyjson_is_arr(value) || yyjson_arr_size(value) + s->n_env > 1024)
                        return config_mistake(r, value, "%s must be an array of names of variables",
                                              r->name);
                e = add_items(r, value, make_passed, &s->env);
        } else {
                if (!yyjson_is_obj(value))
                        return config_mistake(r, value, "%s must be an object of strings", r->name);
                if (yyjson_obj_size(value) > key->most)
                        return config_mistake(r, value, "%s has more than %d variables", r->name,
                                              (int)key->most);
                e = config_read_items(r, value, make_variable, &s->env);
        }
        s->n_env = count(s->env);
        return e;
}

int config_read_type(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        *r->server_type = config_text(value);
        return *r->server_type ? 0 : config_mistake(r, value, "%s must be a string", r->name);
}

int config_check_server_time(struct config_reading *r, const struct config_key *key,
                             yyjson_val *value)
{
        uint64_t ms = config_number(key, r->server);

        if (ms <= TIMEOUT_SUSPECT || yyjson_is_str(value) || r->form == CONFIG_MILLISECONDS)
                return 0;
        return config_warn(r->reader, value,
                           "%s%s is taken as %llu seconds; for milliseconds write \"%llums\"",
                           r->where, r->name, (unsigned long long)ms / 1000,
                           (unsigned long long)ms / 1000);
}

/* ---- url, headers, token ---- */

/* Cloister sets these itself, or they would change how the request is read. */
static const char *const own_headers[] = {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        NULL,
};

/* A token of RFC 9110, 5.6.2. */
static bool is_header_name(const char *name)
{
        if (!*name)
                return false;
        for (; *name; name++) {
                if (!isalnum((unsigned char)*name) && !strchr("!#$%&'*+-.^_`|~", *name))
                        return false;
        }
        return true;
}

static bool is_own_header(const char *name)
{
        if (strncasecmp(name, "mcp-", 4) == 0)
                return true;
        for (const char *const *own = own_headers; *own; own++) {
                if (strcasecmp(name, *own) == 0)
                        return true;
        }
        return false;
}

static bool header_value_valid(const char *value)
{
        for (; *value; value++) {
                if ((unsigned char)*value < ' ' && *value != '\t')
                        return false;
                if (*value == 0x7f)
                        return false;
        }
        return true;
}

/* Why the text cannot be the name of a header in an entry, as a predicate; NULL when it can. */
static const char *header_fault(const char *name)
{
        if (!is_header_name(name))
                return "cannot be a header's name";
        return is_own_header(name) ? "is set by Cloister" : NULL;
}

/* Why the text cannot be the url of a server, as a predicate; NULL when it can. */
static const char *url_fault(const char *url)
{
        size_t scheme = strcspn(url, ":");

        /* The value of a variable is checked when it is expanded. */
        if (url[0] == '$')
                return NULL;
        if (!(scheme == 4 && strncasecmp(url, "http", 4) == 0) &&
            !(scheme == 5 && strncasecmp(url, "https", 5) == 0))
                return "must begin with https:// or http://";
        if (strncmp(url + scheme, "://", 3) != 0 || strchr("/?#", url[scheme + 3]))
                return "has no host";
        if (strchr(url, '#'))
                return "has a fragment (#), which is never sent: remove it";
        for (const char *p = url; *p; p++) {
                if ((unsigned char)*p <= ' ' || *p == 0x7f)
                        return "has a blank or a control character";
        }
        return NULL;
}

/* "NAME: value" */
static int make_header(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                       char **ret)
{
        const char *header = config_text(name), *text = config_text(value);
        const char *why = header ? header_fault(header) : "cannot be a header's name";

        if (why)
                return config_mistake(r, name, "headers: \"%.60s\" %s", header ? header : "…", why);
        if (!text || strlen(text) > HEADER_BYTES_MAX || !header_value_valid(text))
                return config_mistake(
                        r, value, "headers: %.60s must be a string of at most %d KiB in one line",
                        header, HEADER_BYTES_MAX / 1024);
        if (asprintf(ret, r->form == CONFIG_VARIABLES ? "%s: ${%s}" : "%s: %s", header, text) < 0)
                *ret = NULL;
        return 0;
}

static int add_bearer(struct config_reading *r, yyjson_val *value, char ***ret)
{
        const char *variable = config_text(value);
        size_t n = count(*ret);

        if (!variable || *variable == '\0' || strpbrk(variable, "{}\r\n") || n == HEADERS_MAX)
                return config_mistake(r, value, "%s must be the name of a variable", r->name);
        char **grown = reallocarray(*ret, n + 2, sizeof(char *));
        if (!grown)
                return -ENOMEM;
        *ret = grown;
        grown[n + 1] = NULL;
        if (asprintf(&grown[n], "Authorization: Bearer ${%s}", variable) < 0)
                return grown[n] = NULL, -ENOMEM;
        return 0;
}

int config_read_headers(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char ***list = config_member(key, r->server);

        if (r->form == CONFIG_BEARER)
                return add_bearer(r, value, list);
        if (!yyjson_is_obj(value))
                return config_mistake(r, value, "headers must be an object of strings");
        if (count(*list) + yyjson_obj_size(value) > HEADERS_MAX)
                return config_mistake(r, value, "headers has more than %d members", HEADERS_MAX);
        return add_items(r, value, make_header, list);
}

static int make_part(struct config_reading *r, yyjson_val *name, yyjson_val *value, size_t i,
                     char **ret)
{
        const char *text = config_text(value);

        if (!text || (i == 1 && !*text))
                return config_mistake(r, value, "token: item %zu of command must be a string", i);
        *ret = strdup(text);
        return 0;
}

int config_read_token(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_val *path = yyjson_obj_get(value, "file"), *list = yyjson_obj_get(value, "command");
        const char *text = config_text(path);
        enum config_form form;

        if (yyjson_obj_size(value) != 1 || (!path && !list))
                return config_mistake(
                        r, value,
                        "token must be {\"file\": \"PATH\"} or {\"command\": [\"PROGRAM\", …]}");
        if (list && (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0 ||
                     yyjson_arr_size(list) > config_find_key(CONFIG_TOKEN, "command", &form)->most))
                return config_mistake(
                        r, list, "token: command must be an array of a program and its arguments");
        if (list)
                return config_read_items(r, list, make_part, &r->server->token_command);
        if (!text || !*text)
                return config_mistake(r, path, "token: file must be a string that is not empty");
        return config_set_text(&r->server->token_file, text);
}

/* ---- oauth ---- */

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
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(SCOPES_MAX);
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
                                      r->name, SCOPES_MAX);
        return config_set_text(config_member(key, r->into), buffer_bytes(&text));
}

/* A secret goes to the issuer that was named with it, and to no other. */
static int check_oauth(struct config_reading *r, yyjson_val *at)
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
        return e < 0 || r->wrong ? e : check_oauth(r, value);
}

/* ---- an entry ---- */

struct entry {
        struct config_reader *reader;
        struct config_server *server;
        const char *type; /* as written, or NULL */
        yyjson_val *at;   /* what the next problem is about */
        bool mild;        /* the next problem is not a mistake of the file's author */
};

static int problem(struct entry *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int problem(struct entry *e, const char *format, ...)
{
        char text[256];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        return config_problem(e->reader, e->server, e->mild, e->at, text);
}

/* Other clients' words for a type. */
static const struct {
        const char *name;
        enum config_transport transport;
} types[] = {
        {"stdio", CONFIG_STDIO},
        {"local", CONFIG_STDIO},
        {"command", CONFIG_STDIO},
        {"http", CONFIG_HTTP},
        {"streamable-http", CONFIG_HTTP},
        {"streamable_http", CONFIG_HTTP},
        {"streamableHttp", CONFIG_HTTP},
        {"remote", CONFIG_HTTP},
        {"sse", CONFIG_SSE},
};

/* Without a type, the other keys decide. Returns false for a type that is not known. */
static bool find_transport(const struct entry *e, enum config_transport *ret)
{
        *ret = e->server->url ? CONFIG_HTTP : CONFIG_STDIO;
        for (size_t i = 0; e->type && i < ARRAY_SIZE(types); i++) {
                if (strcasecmp(e->type, types[i].name) == 0) {
                        *ret = types[i].transport;
                        return true;
                }
        }
        return !e->type;
}

static int check_url(struct entry *e)
{
        const struct config_server *s = e->server;
        const char *fault = s->url ? url_fault(s->url) : NULL;

        if (!s->url)
                return problem(e, "has no url");
        if (fault)
                return problem(e, "its url %s", fault);
        return 0;
}

/* A type that contradicts the other keys is a problem. */
static int check_kind(struct entry *e)
{
        struct config_server *s = e->server;

        if (e->type && (strcasecmp(e->type, "ws") == 0 || strcasecmp(e->type, "websocket") == 0))
                return problem(e, "type \"%.40s\" is not supported; stdio, http and sse are",
                               e->type);
        if (!find_transport(e, &s->transport))
                return problem(e, "type \"%.40s\" is not known; stdio, http and sse are", e->type);
        if (s->command && s->url)
                return problem(e, "has both a command and a url: remove one");
        if (s->transport != CONFIG_STDIO && s->command)
                return problem(e, "type \"%.40s\" needs a url, not a command", e->type);
        if (s->transport != CONFIG_STDIO)
                return check_url(e);
        if (s->headers || s->token_file || s->token_command || s->oauth.is_set)
                return problem(e, "has headers, a token or oauth, but no url");
        if (s->url)
                return problem(e, "type \"%.40s\" needs a command, not a url", e->type);
        if (!s->command)
                return problem(e, "has no command");
        return 0;
}

static bool is_taken(const struct config *config, const struct config_server *s)
{
        for (size_t i = 0; i < config->n_servers; i++)
                if (&config->servers[i] != s && strcmp(config->servers[i].name, s->name) == 0)
                        return true;
        return false;
}

static int read_entry(struct entry *e, config_code_fn *const *codes, yyjson_val *value)
{
        struct config_server *s = e->server;
        char where[WHERE_MAX];
        int r = 0;

        snprintf(where, sizeof(where), "server \"%s\": ", s->name);
        e->mild = is_taken(e->reader->before, s) || is_taken(e->reader->into, s);
        if (e->mild)
                r = problem(e, "there is a server of this name before it; that one is used");
        else if (!yyjson_is_obj(value))
                r = problem(e, "must be an object: {\"command\": …} or {\"url\": …}");
        if (r < 0 || !yyjson_is_obj(value))
                return r;
        struct config_reading reading = {.reader = e->reader,
                                         .codes = codes,
                                         .into = s,
                                         .server = s,
                                         .server_type = &e->type,
                                         .where = where,
                                         .path = ""};
        r = config_read_members(&reading, CONFIG_SERVER, value);
        if (r >= 0)
                r = check_kind(e);
        /* Its owner expects that principals are kept apart: not only a server that cannot be used. */
        yyjson_val *instances = yyjson_obj_get(value, "instances");
        if (r >= 0 && instances && s->url)
                r = config_wrong(e->reader, instances,
                                 "%sinstances is for servers with a command, not for a url", where);
        e->mild = true;
        if (r >= 0 && config_server_is_ourselves(s))
                r = problem(e, "would start Cloister inside Cloister; skipped");
        s->key = config_server_key(s);
        return r;
}

/* Characters that control a terminal, or make two names look like one: C0 and C1, zero-width, line separators,
 * direction marks. */
static bool is_invisible(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
               (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* Why a name cannot be one, or NULL. The text is UTF-8 (JSON's parser saw to that), maybe with NUL. */
static const char *name_wrong(const char *name, size_t n)
{
        const unsigned char *s = (const unsigned char *)name;

        if (n == 0)
                return "its name is empty";
        for (size_t i = 0; i < n;) {
                int length = utf8_next(s + i, n - i);
                if (length <= 0 || is_invisible(utf8_decode(s + i, length)))
                        return "its name has characters that cannot be seen";
                i += (size_t)length;
        }
        return utf8_count(name, n) > SERVER_NAME_MAX ? "its name is longer than 64 characters"
                                                     : NULL;
}

/* The name in a printable form: without NUL, of limited length. */
static int set_name(struct entry *e, yyjson_val *name)
{
        const char *text = yyjson_get_str(name);
        size_t length = yyjson_get_len(name);
        const char *wrong = name_wrong(text, length);

        if (wrong && length > SERVER_NAME_MAX)
                length = utf8_skip(text, length, SERVER_NAME_MAX);
        free(e->server->name);
        e->server->name = strndup(text, length);
        if (!e->server->name)
                return -ENOMEM;
        e->at = name;
        return wrong ? problem(e, "%s", wrong) : 0;
}

/* The name that code uses: "rename", otherwise the key of the entry. */
static int read_name(struct entry *e, yyjson_val *name, yyjson_val *value)
{
        yyjson_val *other = yyjson_obj_get(value, "rename");

        if (!other)
                return set_name(e, name);
        if (config_text(other))
                return set_name(e, other);
        int r = set_name(e, name);
        e->at = other;
        return r < 0 ? r : problem(e, "\"rename\" must be a string");
}

static struct config_server *new_server(struct config *config)
{
        struct config_server *grown = reallocarray(config->servers, config->n_servers + 1,
                                                   sizeof(*grown));
        if (!grown)
                return NULL;
        config->servers = grown;
        grown[config->n_servers] = (struct config_server){};
        config_defaults(CONFIG_SERVER, &grown[config->n_servers]);
        return &grown[config->n_servers++];
}

static int read_server(struct config_reading *r, yyjson_val *name, yyjson_val *value)
{
        struct config_reader *reader = r->reader;

        if (reader->before->n_servers + reader->into->n_servers >= CONFIG_SERVERS_MAX)
                return config_mistake(r, name, "more than %d servers in all", CONFIG_SERVERS_MAX);

        struct entry e = {.reader = reader, .server = new_server(reader->into), .at = name};
        if (!e.server)
                return config_no_memory(reader);
        int result = read_name(&e, name, value);
        if (!e.server->place)
                e.server->place = config_place_of(reader, name);
        e.at = name;
        if (result >= 0)
                result = read_entry(&e, r->codes, value);
        return result == -ENOMEM || !e.server->place ? config_no_memory(reader) : result;
}

int config_read_servers(struct config_reading *r, const struct config_key *key, yyjson_val *servers)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(servers);
        yyjson_val *name;

        if (!yyjson_is_obj(servers))
                return config_mistake(r, servers,
                                      "mcpServers must be an object: {\"NAME\": {\"command\": …}}");
        while ((name = yyjson_obj_iter_next(&iter))) {
                int e = read_server(r, name, yyjson_obj_iter_get_val(name));
                if (e < 0)
                        return e;
        }
        return 0;
}
