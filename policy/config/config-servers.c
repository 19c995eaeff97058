/*
 * The servers of a config: entries in the format that MCP clients share, {"NAME": {"command",
 * "args", "env", …}}.
 *
 * An entry that cannot be used is stored with its problem, so that a lookup of the server can
 * report why it is not available. Only an entry without a usable name is an error.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/config-http.h"
#include "policy/config/config-internal.h"
#include "policy/quantity.h"
#include "policy/server-name.h"

enum {
        ARGS_MAX = 1024,
        ENV_MAX = 1024,
        TIMEOUT_MIN = 100, /* ms */
        TIMEOUT_MAX = 24 * 3600 * 1000,
        TIMEOUT_SUSPECT = 3600 * 1000, /* written in milliseconds, as some clients want it? */
};

struct entry {
        struct config_reader *reader;
        struct config_server *server;
        const char *type; /* as written, or NULL */
        yyjson_val *at;   /* the value that is read */
        bool mild;        /* the next problem is no mistake of the file's author */
};

static int report(struct entry *e)
{
        _cleanup_free_ char *text = NULL;

        if (!e->reader->into->findings)
                return 0;
        if (asprintf(&text, "%s: server \"%s\": %s", e->server->place, e->server->name,
                     e->server->problem) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        config_report(e->reader->into, !e->mild, text);
        return 0;
}

/* Only the first problem of an entry is stored. */
static int problem(struct entry *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int problem(struct entry *e, const char *format, ...)
{
        va_list args;

        if (e->server->problem)
                return 0;
        char *place = config_place(e->reader, e->at);
        va_start(args, format);
        int r = vasprintf(&e->server->problem, format, args);
        va_end(args);
        if (r < 0)
                e->server->problem = NULL;
        free(e->server->place);
        e->server->place = place;
        return r < 0 || !place ? -ENOMEM : report(e);
}

static int read_text(struct entry *e, const char *key, yyjson_val *value, char **to)
{
        const char *text = config_text(value);

        if (!text || *text == '\0')
                return problem(e, "\"%s\" must be a string that is not empty", key);
        return config_set_text(to, text);
}

static int read_command(struct entry *e, const char *key, yyjson_val *value)
{
        if (yyjson_is_arr(value))
                return problem(e, "\"command\" must be a string; its arguments go into \"args\"");
        return read_text(e, key, value, &e->server->command);
}

/* Also accepts numbers and booleans, as written: other clients do, and their meaning is clear. */
static const char *word(yyjson_val *value)
{
        if (yyjson_is_bool(value))
                return yyjson_get_bool(value) ? "true" : "false";
        return yyjson_is_raw(value) ? yyjson_get_raw(value) : config_text(value);
}

static size_t word_length(yyjson_val *value, const char *text)
{
        return yyjson_is_raw(value) ? yyjson_get_len(value) : strlen(text);
}

DEFINE_CLEANUP(char **, config_list_free)

static int read_args(struct entry *e, const char *key, yyjson_val *value)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        size_t n = yyjson_arr_size(value), i = 0;
        yyjson_val *item;

        if (!yyjson_is_arr(value))
                return problem(e, "\"args\" must be an array of strings");
        if (n > ARGS_MAX)
                return problem(e, "\"args\" has more than %d items", ARGS_MAX);
        _cleanup_(cleanup_config_list_free) char **args = calloc(n + 1, sizeof(char *));
        if (!args)
                return -ENOMEM;
        while ((item = yyjson_arr_iter_next(&iter))) {
                const char *text = word(item);
                e->at = item;
                if (!text)
                        return problem(e, "\"args\": item %zu must be a string", i + 1);
                args[i] = strndup(text, word_length(item, text));
                if (!args[i++])
                        return -ENOMEM;
        }
        config_list_free(e->server->args);
        e->server->args = take_ptr(args);
        e->server->n_args = n;
        return 0;
}

static int read_variable(struct entry *e, yyjson_val *name, yyjson_val *value, char **ret)
{
        const char *text = word(value);
        const char *variable = config_text(name);

        e->at = name;
        if (!variable || *variable == '\0' || strchr(variable, '='))
                return problem(e, "\"env\": \"%s\" cannot be a variable's name",
                               variable ? variable : "…");
        if (!text)
                return problem(e, "\"env\": %s must be a string", variable);
        return asprintf(ret, "%s=%.*s", variable, (int)word_length(value, text), text) < 0 ? -ENOMEM
                                                                                           : 0;
}

static int read_env(struct entry *e, const char *key, yyjson_val *value)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        size_t n = yyjson_obj_size(value), i = 0;
        yyjson_val *name;

        if (!yyjson_is_obj(value))
                return problem(e, "\"env\" must be an object of strings");
        if (n > ENV_MAX)
                return problem(e, "\"env\" has more than %d variables", ENV_MAX);
        _cleanup_(cleanup_config_list_free) char **env = calloc(n + 1, sizeof(char *));
        if (!env)
                return -ENOMEM;
        for (; (name = yyjson_obj_iter_next(&iter)); i++) {
                char *item = NULL;
                int r = read_variable(e, name, yyjson_obj_iter_get_val(name), &item);
                if (r < 0 || !item)
                        return r;
                env[i] = item;
        }
        config_list_free(e->server->env);
        e->server->env = take_ptr(env);
        e->server->n_env = n;
        return 0;
}

static int read_cwd(struct entry *e, const char *key, yyjson_val *value)
{
        return read_text(e, key, value, &e->server->cwd);
}

static int read_url(struct entry *e, const char *key, yyjson_val *value)
{
        return read_text(e, key, value, &e->server->url);
}

static int read_description(struct entry *e, const char *key, yyjson_val *value)
{
        const char *text = config_text(value);

        return text ? config_set_text(&e->server->description, text)
                    : problem(e, "\"description\" must be a string");
}

static int read_type(struct entry *e, const char *key, yyjson_val *value)
{
        e->type = config_text(value);
        return e->type ? 0 : problem(e, "\"%s\" must be a string", key);
}

static int read_disabled(struct entry *e, const char *key, yyjson_val *value)
{
        if (!yyjson_is_bool(value))
                return problem(e, "\"%s\" must be true or false", key);
        e->server->disabled = yyjson_get_bool(value) == (strcmp(key, "disabled") == 0);
        return 0;
}

static int read_time(struct entry *e, const char *key, yyjson_val *value, uint32_t *ret)
{
        uint32_t ms = 0;

        int r = quantity_milliseconds(value, &ms);
        if (r == -EINVAL)
                return problem(e, "\"%s\" must be a number of seconds or a string such as \"30s\"",
                               key);
        if (r < 0 || ms < TIMEOUT_MIN || ms > TIMEOUT_MAX)
                return problem(e, "\"%s\" must be from 0.1 to %d seconds", key, TIMEOUT_MAX / 1000);
        *ret = ms;
        if (ms <= TIMEOUT_SUSPECT || yyjson_is_str(value))
                return 0;
        return config_warn(
                e->reader, value,
                "server \"%s\": %s is taken as %u seconds; for milliseconds write \"%ums\"",
                e->server->name, key, ms / 1000, ms / 1000);
}

static int read_timeout(struct entry *e, const char *key, yyjson_val *value)
{
        return read_time(e, key, value, &e->server->timeout_ms);
}

static int read_start_timeout(struct entry *e, const char *key, yyjson_val *value)
{
        return read_time(e, key, value, &e->server->start_timeout_ms);
}

/* Reports rules that have a wrong format. */
static int complaint(struct entry *e, int r, const struct config_complaint *bad)
{
        if (r < 0 || !*bad->text)
                return r;
        e->at = bad->at;
        return problem(e, "%s", bad->text);
}

static int read_tools(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};
        char where[2 * SERVER_NAME_MAX * 4];

        snprintf(where, sizeof(where), "server \"%s\": ", e->server->name);
        config_rules_done(&e->server->tools);
        int r = config_read_rules(e->reader, where, value, &e->server->tools, &bad);
        return complaint(e, r, &bad);
}

static int read_headers(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};
        bool from_variables = strcmp(key, "env_http_headers") == 0;

        int r = config_read_headers(value, from_variables, &e->server->headers, &bad);
        return complaint(e, r, &bad);
}

static int read_token(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};
        struct config_server *s = e->server;

        int r = config_read_token(value, &s->token_file, &s->token_command, &bad);
        return complaint(e, r, &bad);
}

static int read_oauth(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};
        char where[2 * SERVER_NAME_MAX * 4];

        snprintf(where, sizeof(where), "server \"%s\": oauth: ", e->server->name);
        config_oauth_done(&e->server->oauth);
        int r = config_read_oauth(e->reader, where, value, &e->server->oauth, &bad);
        return complaint(e, r, &bad);
}

/* Gemini's and Codex's keys that are equivalent to "tools". */
static int read_allow(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};

        int r = config_read_names(value, key, CONFIG_RULES_MAX, &e->server->tools.allow, &bad);
        return complaint(e, r, &bad);
}

static int read_deny(struct entry *e, const char *key, yyjson_val *value)
{
        struct config_complaint bad = {};

        int r = config_read_names(value, key, CONFIG_RULES_MAX, &e->server->tools.deny, &bad);
        return complaint(e, r, &bad);
}

static int ignore(struct entry *e, const char *key, yyjson_val *value)
{
        return 0;
}

/* The keys of an entry, including those of other clients. Unsupported keys whose effect a user would
 * miss are left out, so that they cause a warning. */
static const struct server_key {
        const char *name;
        int (*read)(struct entry *e, const char *key, yyjson_val *value);
} server_keys[] = {
        {"command", read_command},
        {"args", read_args},
        {"env", read_env},
        {"cwd", read_cwd},
        {"url", read_url},
        {"type", read_type},
        {"headers", read_headers},
        {"token", read_token},
        {"oauth", read_oauth},
        {"description", read_description},
        {"disabled", read_disabled},
        {"timeout", read_timeout},
        {"start_timeout", read_start_timeout},
        {"tools", read_tools},
        {"rename", ignore}, /* read before all others */
        /* other clients' names for these */
        {"enabled", read_disabled},
        {"environment", read_env},
        {"workingDirectory", read_cwd},
        {"httpUrl", read_url},
        {"serverUrl", read_url},
        {"http_headers", read_headers},
        {"env_http_headers", read_headers},
        {"transport", read_type},
        {"transportType", read_type},
        {"startup_timeout_sec", read_start_timeout},
        {"includeTools", read_allow},
        {"excludeTools", read_deny},
        {"enabled_tools", read_allow},
        {"disabled_tools", read_deny},
        /* only for the client: approval, appearance, origin of the entry */
        {"alwaysAllow", ignore},
        {"autoApprove", ignore},
        {"trust", ignore},
        {"icon", ignore},
        {"iconUrl", ignore},
        {"logoUrl", ignore},
        {"displayName", ignore},
        {"gallery", ignore},
        {"version", ignore},
        {"metadata", ignore},
        {"_meta", ignore},
        {"tags", ignore},
        {"note", ignore},
        {"notes", ignore},
        {"comment", ignore},
        {"_comment", ignore},
        {"$schema", ignore},
        {"longRunning", ignore},
        {"isActive", read_disabled},
        {"initializationOptions", ignore},
        {"requestTimeout", ignore},
        {"required", ignore},
};

static const char *const known_names[] = {
        "command",       "args",  "env",    "cwd",         "url",      "type",
        "headers",       "token", "oauth",  "description", "disabled", "timeout",
        "start_timeout", "tools", "rename", NULL,
};

static int warn_unknown(struct entry *e, yyjson_val *key)
{
        char where[2 * SERVER_NAME_MAX * 4];

        snprintf(where, sizeof(where), "server \"%s\": ", e->server->name);
        return config_warn_unknown(e->reader, where, key, known_names);
}

static int read_member(struct entry *e, yyjson_val *name, yyjson_val *value)
{
        const char *key = yyjson_get_str(name);

        e->at = value;
        for (size_t i = 0; i < ARRAY_SIZE(server_keys); i++)
                if (strcmp(server_keys[i].name, key) == 0)
                        return server_keys[i].read(e, key, value);
        return warn_unknown(e, name);
}

static int read_members(struct entry *e, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        char where[2 * SERVER_NAME_MAX * 4];

        snprintf(where, sizeof(where), "server \"%s\": ", e->server->name);
        while ((name = yyjson_obj_iter_next(&iter))) {
                int r = config_check_twice(e->reader, where, object, name);
                if (r >= 0)
                        r = read_member(e, name, yyjson_obj_iter_get_val(name));
                if (r < 0)
                        return r;
        }
        return 0;
}

/* What the words of other clients for a type mean. */
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
        const char *fault = s->url ? config_url_fault(s->url) : NULL;

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

static int read_entry(struct entry *e, yyjson_val *value)
{
        struct config_server *s = e->server;
        yyjson_val *name = e->at;
        int r = 0;

        e->mild = is_taken(e->reader->before, s) || is_taken(e->reader->into, s);
        if (e->mild)
                r = problem(e, "there is a server of this name before it; that one is used");
        else if (!yyjson_is_obj(value))
                r = problem(e, "must be an object: {\"command\": …} or {\"url\": …}");
        if (r < 0 || !yyjson_is_obj(value))
                return r;
        r = read_members(e, value);
        e->at = name;
        if (r >= 0)
                r = check_kind(e);
        e->mild = true;
        if (r >= 0 && config_server_is_ourselves(s))
                r = problem(e, "would start Cloister inside Cloister; skipped");
        s->key = config_server_key(s);
        return r;
}

/* The name in a printable form: without NUL, of limited length. */
static int set_name(struct entry *e, yyjson_val *name)
{
        const char *text = yyjson_get_str(name);
        size_t length = yyjson_get_len(name);
        const char *wrong = server_name_wrong(text, length);

        if (wrong && length > SERVER_NAME_MAX)
                length = server_name_cut(text, length);
        free(e->server->name);
        e->server->name = strndup(text, length);
        if (!e->server->name)
                return -ENOMEM;
        e->at = name;
        return wrong ? problem(e, "%s", wrong) : 0;
}

/* The name that code uses: "rename", else the key of the entry. */
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
        return &grown[config->n_servers++];
}

static int read_server(struct config_reader *reader, yyjson_val *name, yyjson_val *value)
{
        if (reader->before->n_servers + reader->into->n_servers >= CONFIG_SERVERS_MAX)
                return config_wrong(reader, name, "more than %d servers in all",
                                    CONFIG_SERVERS_MAX);

        struct entry e = {.reader = reader, .server = new_server(reader->into), .at = name};
        if (!e.server)
                return config_no_memory(reader);
        int r = read_name(&e, name, value);
        if (!e.server->place)
                e.server->place = config_place(reader, name);
        e.at = name;
        if (r >= 0)
                r = read_entry(&e, value);
        return r == -ENOMEM || !e.server->place ? config_no_memory(reader) : r;
}

int config_read_servers(struct config_reader *reader, yyjson_val *servers)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(servers);
        yyjson_val *name;

        if (!yyjson_is_obj(servers))
                return config_wrong(reader, servers,
                                    "mcpServers must be an object: {\"NAME\": {\"command\": …}}");
        while ((name = yyjson_obj_iter_next(&iter))) {
                int r = read_server(reader, name, yyjson_obj_iter_get_val(name));
                if (r < 0)
                        return r;
        }
        return 0;
}
