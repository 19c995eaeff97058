/* Prints the config as Cloister understands it, in the format of a config file. */
#include "supervisor/cli/config/config-show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mask.h"
#include "supervisor/cli/config/secrets.h"

static const char masked[] = "***";

static void add_text(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, const char *text)
{
        if (text)
                yyjson_mut_obj_add_strcpy(doc, object, key, text);
}

static void add_list(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key,
                     char *const *list)
{
        if (!list)
                return;
        yyjson_mut_val *array = yyjson_mut_obj_add_arr(doc, object, key);
        for (; *list; list++)
                yyjson_mut_arr_add_strcpy(doc, array, *list);
}

static void add_rules(yyjson_mut_doc *doc, yyjson_mut_val *object,
                      const struct config_tool_rules *rules)
{
        if (!rules->allow && !rules->deny)
                return;
        yyjson_mut_val *tools = yyjson_mut_obj_add_obj(doc, object, "tools");
        add_list(doc, tools, "allow", rules->allow);
        add_list(doc, tools, "deny", rules->deny);
}

static void add_bytes(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, uint64_t bytes)
{
        static const char units[] = "KMGT";
        char text[32];
        size_t unit = 0;

        if (bytes % 1024) {
                yyjson_mut_obj_add_uint(doc, object, key, bytes);
                return;
        }
        for (bytes /= 1024; bytes && bytes % 1024 == 0 && unit < sizeof(units) - 2; unit++)
                bytes /= 1024;
        snprintf(text, sizeof(text), "%llu%c", (unsigned long long)bytes, units[unit]);
        yyjson_mut_obj_add_strcpy(doc, object, key, text);
}

static void add_time(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, uint32_t ms)
{
        if (ms % 1000)
                yyjson_mut_obj_add_real(doc, object, key, ms / 1000.0);
        else
                yyjson_mut_obj_add_uint(doc, object, key, ms / 1000);
}

static void add_limits(yyjson_mut_doc *doc, yyjson_mut_val *object, const struct limits *limits)
{
        yyjson_mut_val *to = yyjson_mut_obj_add_obj(doc, object, "limits");

        add_bytes(doc, to, "memory", limits->memory);
        yyjson_mut_obj_add_uint(doc, to, "pids", limits->pids);
        if (limits->cpu_milli % 1000)
                yyjson_mut_obj_add_real(doc, to, "cpu", limits->cpu_milli / 1000.0);
        else
                yyjson_mut_obj_add_uint(doc, to, "cpu", limits->cpu_milli / 1000);
        add_bytes(doc, to, "tmp", limits->tmp);
        add_bytes(doc, to, "workspace", limits->workspace);
        add_bytes(doc, to, "shm", limits->shm);
}

static void add_network(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct config_profile *p)
{
        if (p->network != CONFIG_NETWORK_ALLOW) {
                yyjson_mut_obj_add_str(doc, to, "network",
                                       p->network == CONFIG_NETWORK_LOOPBACK ? "loopback" : "none");
                return;
        }
        yyjson_mut_val *network = yyjson_mut_obj_add_obj(doc, to, "network");
        add_list(doc, network, "allow", p->egress.allow);
        add_bytes(doc, network, "max_bytes", p->egress.max_bytes);
        if (p->egress.rate > 0)
                add_bytes(doc, network, "rate", p->egress.rate);
}

static char *masked_url(const char *url)
{
        unsigned keep, rest;
        char *ret = NULL;

        if (!secret_in_url(url, &keep, &rest))
                return strdup(url);
        return asprintf(&ret, "%.*s%s%s", (int)keep, url, masked, url + strlen(url) - rest) < 0
                       ? NULL
                       : ret;
}

static void add_packages(yyjson_mut_doc *doc, yyjson_mut_val *profile,
                         const struct config_packages *p)
{
        yyjson_mut_val *to = yyjson_mut_obj_add_obj(doc, profile, "packages");
        _cleanup_free_ char *index = p->index ? masked_url(p->index) : NULL;

        yyjson_mut_obj_add_str(doc, to, "install", p->install ? "allow" : "never");
        add_list(doc, to, "allow", p->allow);
        if (index)
                yyjson_mut_obj_add_strcpy(doc, to, "index", index);
        add_bytes(doc, to, "max_size", p->max_bytes);
        add_text(doc, to, "exclude_newer", p->exclude_newer);
        add_time(doc, to, "timeout", p->timeout_ms);
}

static void add_profile(yyjson_mut_doc *doc, yyjson_mut_val *profiles,
                        const struct config_profile *p)
{
        yyjson_mut_val *to = yyjson_mut_obj_add_obj(doc, profiles, p->name);
        yyjson_mut_val *mounts;

        add_text(doc, to, "image", p->image);
        add_text(doc, to, "python", p->python);
        add_limits(doc, to, &p->limits);
        add_network(doc, to, p);
        mounts = yyjson_mut_obj_add_arr(doc, to, "mounts");
        for (size_t i = 0; i < p->n_mounts; i++) {
                yyjson_mut_val *mount = yyjson_mut_arr_add_obj(doc, mounts);
                add_text(doc, mount, "source", p->mounts[i].source);
                add_text(doc, mount, "target", p->mounts[i].target);
                yyjson_mut_obj_add_str(doc, mount, "mode", p->mounts[i].writable ? "rw" : "ro");
        }
        add_list(doc, to, "preload", p->preload);
        add_list(doc, to, "servers", p->servers);
        add_rules(doc, to, &p->tools);
        yyjson_mut_val *pool = yyjson_mut_obj_add_obj(doc, to, "pool");
        yyjson_mut_obj_add_uint(doc, pool, "min", p->pool.min);
        yyjson_mut_obj_add_uint(doc, pool, "max", p->pool.max);
        add_time(doc, to, "freeze", p->freeze_ms);
        yyjson_mut_val *state = yyjson_mut_obj_add_obj(doc, to, "state");
        yyjson_mut_obj_add_bool(doc, state, "survives", p->survives);
        yyjson_mut_obj_add_uint(doc, state, "checkpoints", p->checkpoints);
        yyjson_mut_obj_add_bool(doc, to, "agent", p->agent);
        add_packages(doc, to, &p->packages);
}

static char *masked_argument(const char *after, const char *argument)
{
        unsigned keep;
        char *ret = NULL;

        if (secret_in_argument(after, argument, &keep))
                return asprintf(&ret, "%.*s%s", (int)keep, argument, masked) < 0 ? NULL : ret;
        ret = masked_url(argument);
        if (ret)
                mask_text(ret);
        return ret;
}

static void add_args(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct config_server *s)
{
        yyjson_mut_val *args = yyjson_mut_obj_add_arr(doc, to, "args");

        for (size_t i = 0; i < s->n_args; i++) {
                _cleanup_free_ char *text = masked_argument(i ? s->args[i - 1] : NULL, s->args[i]);
                yyjson_mut_arr_add_strcpy(doc, args, text ? text : masked);
        }
}

static void add_env(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct config_server *s)
{
        yyjson_mut_val *env = yyjson_mut_obj_add_obj(doc, to, "env");

        for (size_t i = 0; i < s->n_env; i++) {
                size_t n = strcspn(s->env[i], "=");
                const char *value = s->env[i] + n + 1;
                yyjson_mut_obj_add(
                        env, yyjson_mut_strncpy(doc, s->env[i], n),
                        yyjson_mut_strcpy(doc, *value == '\0' || secret_is_reference(value)
                                                       ? value
                                                       : masked));
        }
}

static void add_headers(yyjson_mut_doc *doc, yyjson_mut_val *to, char *const *headers)
{
        yyjson_mut_val *object = yyjson_mut_obj_add_obj(doc, to, "headers");

        for (; *headers; headers++) {
                size_t n = strcspn(*headers, ":");
                const char *value = *headers + n + 2;
                yyjson_mut_obj_add(
                        object, yyjson_mut_strncpy(doc, *headers, n),
                        yyjson_mut_strcpy(doc, secret_is_reference(value) ? value : masked));
        }
}

static void add_token(yyjson_mut_doc *doc, yyjson_mut_val *to, const struct config_server *s)
{
        if (!s->token_file && !s->token_command)
                return;
        yyjson_mut_val *token = yyjson_mut_obj_add_obj(doc, to, "token");
        add_text(doc, token, "file", s->token_file);
        if (!s->token_command)
                return;
        yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, token, "command");
        for (size_t i = 0; s->token_command[i]; i++) {
                _cleanup_free_ char *text = masked_argument(i ? s->token_command[i - 1] : NULL,
                                                            s->token_command[i]);
                yyjson_mut_arr_add_strcpy(doc, list, text ? text : masked);
        }
}

/* A client_secret is the name of a variable. */
static void add_oauth(yyjson_mut_doc *doc, yyjson_mut_val *server, const struct config_oauth *o)
{
        if (!o->is_set)
                return;
        yyjson_mut_val *to = yyjson_mut_obj_add_obj(doc, server, "oauth");
        add_text(doc, to, "client_id", o->client_id);
        add_text(doc, to, "client_secret", o->client_secret);
        add_text(doc, to, "client_secret_file", o->client_secret_file);
        add_text(doc, to, "private_key_file", o->private_key_file);
        add_text(doc, to, "key_id", o->key_id);
        add_text(doc, to, "grant", o->client_credentials ? "client_credentials" : NULL);
        add_text(doc, to, "client_metadata_url", o->client_metadata_url);
        add_text(doc, to, "issuer", o->issuer);
        add_text(doc, to, "scopes", o->scopes);
        if (o->redirect_port)
                yyjson_mut_obj_add_uint(doc, to, "redirect_port", o->redirect_port);
        if (o->private)
                yyjson_mut_obj_add_bool(doc, to, "private", true);
}

static void add_server(yyjson_mut_doc *doc, yyjson_mut_val *servers, const struct config_server *s,
                       bool places)
{
        yyjson_mut_val *to = yyjson_mut_obj(doc);
        _cleanup_free_ char *url = s->url ? masked_url(s->url) : NULL;

        yyjson_mut_obj_add(servers, yyjson_mut_strcpy(doc, s->name), to);
        add_text(doc, to, "command", s->command);
        if (s->n_args)
                add_args(doc, to, s);
        if (s->n_env)
                add_env(doc, to, s);
        if (s->transport == CONFIG_SSE)
                add_text(doc, to, "type", "sse");
        add_text(doc, to, "url", url);
        if (s->headers)
                add_headers(doc, to, s->headers);
        add_token(doc, to, s);
        add_oauth(doc, to, &s->oauth);
        add_text(doc, to, "cwd", s->cwd);
        add_text(doc, to, "description", s->description);
        if (s->disabled)
                yyjson_mut_obj_add_bool(doc, to, "disabled", true);
        if (s->timeout_ms)
                add_time(doc, to, "timeout", s->timeout_ms);
        if (s->start_timeout_ms)
                add_time(doc, to, "start_timeout", s->start_timeout_ms);
        add_rules(doc, to, &s->tools);
        if (places) {
                add_text(doc, to, "place", s->place);
                add_text(doc, to, "problem", s->problem);
        }
}

/* A second server of the same name is not used, and an object must not repeat a key. */
static bool is_second(const struct config *config, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (strcmp(config->servers[k].name, config->servers[i].name) == 0)
                        return true;
        return false;
}

yyjson_mut_val *config_show(yyjson_mut_doc *doc, const struct config *config, bool places)
{
        yyjson_mut_val *root = yyjson_mut_obj(doc), *part;

        part = yyjson_mut_obj_add_obj(doc, root, "mcpServers");
        for (size_t i = 0; i < config->n_servers; i++)
                if (!is_second(config, i))
                        add_server(doc, part, &config->servers[i], places);
        part = yyjson_mut_obj_add_obj(doc, root, "profiles");
        for (size_t i = 0; i < config->n_profiles; i++)
                add_profile(doc, part, &config->profiles[i]);
        add_text(doc, root, "profile", config->profiles[config->profile].name);
        part = yyjson_mut_obj_add_obj(doc, root, "clients");
        for (size_t i = 0; i < config->n_clients; i++)
                add_text(doc, part, config->clients[i].name,
                         config->profiles[config->clients[i].profile].name);
        add_time(doc, root, "timeout", config->cell_timeout_ms);
        add_time(doc, root, "timeout_max", config->cell_timeout_max_ms);
        add_time(doc, root, "idle", config->session_idle_ms);
        if (config->sessions_max)
                yyjson_mut_obj_add_uint(doc, root, "sessions", config->sessions_max);
        yyjson_mut_obj_add_uint(doc, root, "output", config->output_characters);
        add_text(doc, root, "user", config->user);
        if (config->id_count) {
                part = yyjson_mut_obj_add_arr(doc, root, "id_range");
                yyjson_mut_arr_add_uint(doc, part, config->id_first);
                yyjson_mut_arr_add_uint(doc, part, config->id_count);
        }
        return root;
}
