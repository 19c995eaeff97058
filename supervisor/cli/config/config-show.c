/* Prints the config as Cloister understands it, in the format of a config file: the rows of keys.def in order. */
#include "supervisor/cli/config/config-show.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/mask.h"
#include "policy/config/keys.h"
#include "policy/config/publish.h"
#include "supervisor/cli/config/secrets.h"

static const char masked[] = "***";

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

static void put_text(struct json_out *out, const char *name, const char *text)
{
        if (text)
                json_out_text(out, name, text);
}

static void put_list(struct json_out *out, const char *name, char *const *list, bool arguments)
{
        json_out_begin(out, name, '[');
        for (size_t i = 0; list[i]; i++) {
                _cleanup_free_ char *text = arguments ? masked_argument(i ? list[i - 1] : NULL,
                                                                        list[i])
                                                      : NULL;
                json_out_text(out, NULL, text ? text : arguments ? masked : list[i]);
        }
        json_out_end(out, ']');
}

/* "NAME=value" of env, "NAME: value" of headers. */
static void put_pairs(struct json_out *out, const char *name, char *const *list, char separator)
{
        json_out_begin(out, name, '{');
        for (; *list; list++) {
                size_t n = strcspn(*list, (const char[]){separator, '\0'});
                const char *value = *list + n + (separator == ':' ? 2 : 1);
                json_out_key(out, *list, n);
                json_out_text(out, NULL,
                              *value == '\0' || secret_is_reference(value) ? value : masked);
        }
        json_out_end(out, '}');
}

static void put_members(struct json_out *out, enum config_place place, const void *in);

static bool has_value(const struct config_key *key, const void *in)
{
        const void *member = config_member(key, in);

        if (!key->name || key->kind == CONFIG_NOTHING)
                return false;
        if (config_is_number(key))
                return key->flags & CONFIG_ALWAYS || config_number(key, in) != key->initial;
        if (key->code == CODE_OAUTH)
                return ((const struct config_oauth *)member)->is_set;
        if (key->kind != CONFIG_OBJECT || key->flags & CONFIG_ALWAYS)
                return key->flags & CONFIG_ALWAYS || *(void *const *)member;
        for (const struct config_key *inner = NULL; (inner = config_next_key(key->inside, inner));)
                if (has_value(inner, member))
                        return true;
        return false;
}

static void put_array(struct json_out *out, const struct config_key *key, const void *in)
{
        const char *items = *(char *const *)config_member(key, in);
        size_t n = ((const size_t *)config_member(key, in))[1];

        json_out_begin(out, key->name, '[');
        for (size_t i = 0; i < n; i++) {
                json_out_begin(out, NULL, '{');
                put_members(out, key->inside, items + i * config_place_size(key->inside));
                json_out_end(out, '}');
        }
        json_out_end(out, ']');
}

static void put_key(struct json_out *out, const struct config_key *key, const void *in)
{
        const void *member = config_member(key, in);
        const struct config_profile *profile = in;

        if (key->code == CODE_NETWORK && profile->network != CONFIG_NETWORK_ALLOW) {
                json_out_text(out, key->name,
                              profile->network == CONFIG_NETWORK_LOOPBACK ? "loopback" : "none");
        } else if (config_is_number(key)) {
                config_put_number(out, key->name, key, config_number(key, in));
        } else if (config_is_text(key)) {
                const char *text = *(char *const *)member;
                _cleanup_free_ char *url = key->flags & CONFIG_URL ? masked_url(text) : NULL;
                json_out_text(out, key->name, url ? url : key->flags & CONFIG_URL ? masked : text);
        } else if (key->code == CODE_ENV || key->code == CODE_HEADERS) {
                put_pairs(out, key->name, *(char **const *)member,
                          key->code == CODE_ENV ? '=' : ':');
        } else if (key->kind == CONFIG_LIST) {
                put_list(out, key->name, *(char **const *)member,
                         key->place == CONFIG_SERVER || key->place == CONFIG_TOKEN);
        } else if (key->kind == CONFIG_ARRAY) {
                put_array(out, key, in);
        } else {
                json_out_begin(out, key->name, '{');
                put_members(out, key->inside, member);
                json_out_end(out, '}');
        }
}

static void put_members(struct json_out *out, enum config_place place, const void *in)
{
        for (const struct config_key *key = NULL; (key = config_next_key(place, key));)
                if (key->place == place && has_value(key, in))
                        put_key(out, key, in);
}

static void put_server(struct json_out *out, const struct config_server *s, bool places)
{
        json_out_key(out, s->name, strlen(s->name));
        json_out_begin(out, NULL, '{');
        put_members(out, CONFIG_SERVER, s);
        put_text(out, "type", s->transport == CONFIG_SSE ? "sse" : NULL);
        put_text(out, "place", places ? s->place : NULL);
        put_text(out, "problem", places ? s->problem : NULL);
        json_out_end(out, '}');
}

/* A second server of the same name is not used, and an object must not repeat a key. */
static bool is_second(const struct config *config, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (strcmp(config->servers[k].name, config->servers[i].name) == 0)
                        return true;
        return false;
}

static void put_servers(struct json_out *out, const struct config *config, bool places)
{
        for (size_t i = 0; i < config->n_servers; i++)
                if (!is_second(config, i))
                        put_server(out, &config->servers[i], places);
}

static void put_profiles(struct json_out *out, const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                json_out_begin(out, config->profiles[i].name, '{');
                put_members(out, CONFIG_PROFILE, &config->profiles[i]);
                json_out_end(out, '}');
        }
}

static void put_clients(struct json_out *out, const struct config *config)
{
        for (size_t i = 0; i < config->n_clients; i++) {
                const struct config_client *client = &config->clients[i];
                json_out_key(out, client->name, strlen(client->name));
                json_out_text(out, NULL, config->profiles[client->profile].name);
        }
}

/* The part of an entry that clients see is JSON; the rest is in members. */
static void put_entry(struct json_out *out, const struct config_published *p)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error ignored = {};

        if (json_parse(p->entry, strlen(p->entry), &doc, &ignored) < 0)
                json_out_fail(out, -ENOMEM);
        json_out_key(out, p->name, strlen(p->name));
        json_out_begin(out, NULL, '{');
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_PUBLISHED, key));) {
                yyjson_val *value = key->flags & CONFIG_LISTED
                                            ? yyjson_obj_get(yyjson_doc_get_root(doc), key->name)
                                            : NULL;
                bool own = !key->published || key->published & 1u << p->kind;
                if (key->flags & CONFIG_LISTED && value && own)
                        json_out_value(out, key->name, value);
                else if (key->code == CODE_COMPLETE && p->completes)
                        json_out_bool(out, key->name, true);
                else if (key->code == CODE_COMPLETE && p->completions)
                        json_out_raw(out, key->name, p->completions, strlen(p->completions));
                else if (!(key->flags & CONFIG_LISTED) && key->code != CODE_COMPLETE &&
                         has_value(key, p) && !(key->code == CODE_OF_ENTRY && p->file))
                        put_key(out, key, p);
        }
        json_out_end(out, '}');
}

static void put_published(struct json_out *out, const struct config *config)
{
        for (unsigned kind = 0; kind < PUBLISHED_KINDS; kind++) {
                json_out_begin(out, config_published_plural((enum config_published_kind)kind), '{');
                for (size_t i = 0; i < config->n_published; i++)
                        if (config->published[i].kind == kind)
                                put_entry(out, &config->published[i]);
                json_out_end(out, '}');
        }
}

static void put_by_code(struct json_out *out, const struct config_key *key,
                        const struct config *config, bool places)
{
        if (key->code == CODE_PROFILE) {
                json_out_text(out, key->name, config->profiles[config->profile].name);
        } else if (key->code == CODE_ID_RANGE && config->id_count > 0) {
                json_out_begin(out, key->name, '[');
                json_out_int(out, NULL, config->id_first);
                json_out_int(out, NULL, config->id_count);
                json_out_end(out, ']');
        } else if (key->code == CODE_SERVERS || key->code == CODE_PROFILES ||
                   key->code == CODE_CLIENTS || key->code == CODE_PUBLISH) {
                json_out_begin(out, key->name, '{');
                if (key->code == CODE_SERVERS)
                        put_servers(out, config, places);
                else if (key->code == CODE_PROFILES)
                        put_profiles(out, config);
                else if (key->code == CODE_CLIENTS)
                        put_clients(out, config);
                else
                        put_published(out, config);
                json_out_end(out, '}');
        }
}

void config_show(struct json_out *out, const struct config *config, bool places)
{
        json_out_begin(out, NULL, '{');
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));) {
                if (key->place != CONFIG_TOP || !key->name)
                        continue;
                if (key->kind == CONFIG_NOTHING)
                        put_by_code(out, key, config, places);
                else if (has_value(key, config))
                        put_key(out, key, config);
        }
        json_out_end(out, '}');
}
