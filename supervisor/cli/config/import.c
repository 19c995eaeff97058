/*
 * The servers of an import: translates the entry of another client's file into an entry of Cloister's config, which is added or
 * left out.
 *
 * Each value is checked. One that may be a secret is not copied: ${NAME} replaces it, and the
 * report names the variable (unless the user wants secrets to be copied).
 */
#include "supervisor/cli/config/import.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "supervisor/cli/config/secrets.h"

enum {
        NAME_SIZE = 128,
        VALUE_MAX = 256 * 1024,
        DIGITS = 32,
        TEXT_MAX = 4 * 1024 * 1024,
        NOTES_MAX = 4096,
};

/* The members of a JSON object: names, and values as JSON. */
struct members {
        struct member {
                char *name, *json;
        } * items;
        size_t n;
};

struct entry {
        struct import *import;
        const struct import_origin *origin;
        const char *name;
        struct members to, env, headers, tools;
        struct buffer *notes; /* what was lost */
        const char *why;      /* the entry cannot be taken, or NULL */
        struct error *err;
};

static int no_memory(struct error *err)
{
        return error_errno(err, ENOMEM, "import");
}

static int note(struct entry *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int note(struct entry *e, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;
        va_list args;

        va_start(args, format);
        int r = vasprintf(&text, format, args);
        va_end(args);
        if (r < 0) {
                text = NULL;
                return no_memory(e->err);
        }
        r = buffer_printf(e->notes, "%s%s", e->notes->length ? "; " : "", text);
        /* The rest is cut. */
        return r == -ENOMEM ? no_memory(e->err) : 0;
}

static const char *get(const struct members *members, const char *name)
{
        for (size_t i = 0; i < members->n; i++)
                if (strcmp(members->items[i].name, name) == 0)
                        return members->items[i].json;
        return NULL;
}

static void members_done(struct members *members)
{
        for (size_t i = 0; i < members->n; i++) {
                free(members->items[i].name);
                free(members->items[i].json);
        }
        free(members->items);
}

/* Sets a member, or replaces its value. Takes json, allocated; NULL: no memory. */
static int put_json(struct entry *e, struct members *members, const char *name, char *json)
{
        for (size_t i = 0; json && i < members->n; i++) {
                if (strcmp(members->items[i].name, name) != 0)
                        continue;
                free(members->items[i].json);
                members->items[i].json = json;
                return 0;
        }
        struct member *grown = json ? reallocarray(members->items, members->n + 1, sizeof(*grown))
                                    : NULL;
        if (!grown) {
                free(json);
                return no_memory(e->err);
        }
        members->items = grown;
        grown[members->n] = (struct member){strdup(name), json};
        return grown[members->n++].name ? 0 : no_memory(e->err);
}

static char *text_in(const struct buffer *b)
{
        return strndup(buffer_bytes(b), b->length);
}

static int put_text(struct entry *e, struct members *members, const char *name, const char *text)
{
        _cleanup_buffer_ struct buffer json = BUFFER_INIT(6 * VALUE_MAX);

        if (json_append_string(&json, text, strlen(text)) < 0)
                return no_memory(e->err);
        return put_json(e, members, name, text_in(&json));
}

/* A string, a number or a boolean as text; a number is not NUL-terminated. */
static char *text_of(yyjson_val *value)
{
        if (yyjson_is_bool(value))
                return strdup(yyjson_get_bool(value) ? "true" : "false");
        if (yyjson_is_raw(value))
                return strndup(yyjson_get_raw(value), yyjson_get_len(value));
        return yyjson_is_str(value) ? strdup(yyjson_get_str(value)) : NULL;
}

/* Converts a name to the form of an environment variable: LIKE_THIS. */
static void upper(const char *text, char ret[NAME_SIZE])
{
        size_t n = 0;

        while (*text && !isalnum((unsigned char)*text))
                text++;
        if (isdigit((unsigned char)*text))
                ret[n++] = '_';
        for (; *text && n < NAME_SIZE - 1; text++)
                ret[n++] = isalnum((unsigned char)*text) ? (char)toupper((unsigned char)*text)
                                                         : '_';
        ret[n] = '\0';
}

static const struct import_secret *find_secret(const struct import *import, const char *variable)
{
        for (size_t i = 0; i < import->n_secrets; i++)
                if (strcmp(import->secrets[i].variable, variable) == 0)
                        return &import->secrets[i];
        return NULL;
}

static int add_secret(struct entry *e, const char *variable, const char *what, const char *value)
{
        struct import *import = e->import;
        struct import_secret *grown = reallocarray(import->secrets, import->n_secrets + 1,
                                                   sizeof(*grown));
        if (!grown)
                return no_memory(e->err);
        import->secrets = grown;
        struct import_secret *new = &grown[import->n_secrets++];
        *new = (struct import_secret){strdup(variable), strdup(e->name), strdup(what),
                                      strdup(e->origin->file), value ? strdup(value) : NULL};
        return new->variable &&new->server &&new->what &&new->file && (!value || new->value)
                       ? 0
                       : no_memory(e->err);
}

static bool is_other(const struct import_secret *secret, const char *value)
{
        return secret && (!secret->value || strcmp(secret->value, value) != 0);
}

/* Chooses the variable for a secret: its own name, with the server's name as a prefix if another
 * server uses it. */
static void variable_for(const struct entry *e, const char *what, const char *value,
                         char ret[NAME_SIZE])
{
        char name[NAME_SIZE], server[NAME_SIZE], both[2 * NAME_SIZE];

        upper(what, name);
        upper(e->name, server);
        snprintf(ret, NAME_SIZE, "%s", *name ? name : "SECRET");
        if (!*name || is_other(find_secret(e->import, ret), value)) {
                snprintf(both, sizeof(both), "%.60s_%.60s", server, *name ? name : "SECRET");
                snprintf(ret, NAME_SIZE, "%s", both);
        }
        for (int i = 2; is_other(find_secret(e->import, ret), value) && i < 100; i++)
                snprintf(ret, NAME_SIZE, "%.100s_%d", both, i);
}

/* Replaces the secret part by a variable: all bytes except the first keep and the last rest. */
static char *hide(struct entry *e, const char *what, const char *value, unsigned keep,
                  unsigned rest)
{
        char variable[NAME_SIZE], *ret = NULL;
        size_t n = strlen(value) - keep - rest;
        _cleanup_free_ char *secret = strndup(value + keep, n);

        if (!secret)
                return NULL;
        variable_for(e, what, secret, variable);
        if (add_secret(e, variable, what, secret) < 0)
                return NULL;
        if (e->import->copy)
                return strdup(value);
        return asprintf(&ret, "%.*s${%s}%s", (int)keep, value, variable, value + keep + n) < 0
                       ? NULL
                       : ret;
}

/* A client's reference to a variable at text. Returns its length, 0 if there is none; *to is the
 * same reference for Cloister, NULL if there is no equivalent. */
static size_t reference(const struct entry *e, const char *text, char to[NAME_SIZE + 4],
                        bool *input, const char **value)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
        char name[NAME_SIZE];
        size_t n = strcspn(text, "}");

        *input = false;
        *value = to;
        if (strncmp(text, "${env:", 6) == 0 && text[n]) {
                snprintf(to, NAME_SIZE + 4, "${%.*s}", (int)(n - 6), text + 6);
        } else if (strncmp(text, "${input:", 8) == 0 && text[n]) {
                _cleanup_free_ char *id = strndup(text + 8, n - 8);
                upper(id ? id : "INPUT", name);
                snprintf(to, NAME_SIZE + 4, "${%s}", name);
                *input = true;
        } else if (strncmp(text, "${userHome}", 11) == 0) {
                snprintf(to, NAME_SIZE + 4, "${HOME}");
        } else if (strncmp(text, "${workspaceFolder}", 18) == 0) {
                *value = e->origin->folder;
        } else if ((e->origin->syntax & IMPORT_BRACES) && strncmp(text, "{env:", 5) == 0 &&
                   text[n]) {
                snprintf(to, NAME_SIZE + 4, "${%.*s}", (int)(n - 5), text + 5);
        } else if ((e->origin->syntax & IMPORT_DOLLAR) && text[0] == '$' &&
                   (isalpha((unsigned char)text[1]) || text[1] == '_')) {
                n = strspn(text + 1, letters);
                snprintf(to, NAME_SIZE + 4, "${%.*s}", (int)n, text + 1);
                return n + 1;
        } else {
                return 0;
        }
        return n + 1;
}

/* Rewrites the client's references to variables in Cloister's syntax. */
static char *translated(struct entry *e, const char *what, const char *text)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(VALUE_MAX);
        char to[NAME_SIZE + 4], name[NAME_SIZE];
        const char *value;
        bool input;

        while (*text) {
                size_t n = reference(e, text, to, &input, &value);
                if (n > 0 && !value) {
                        e->why = "it uses ${workspaceFolder}, which only the editor knows";
                        return NULL;
                }
                if (input) {
                        snprintf(name, sizeof(name), "%.*s", (int)strlen(to) - 3, to + 2);
                        if (!find_secret(e->import, name) && add_secret(e, name, what, NULL) < 0)
                                return NULL;
                }
                if (buffer_append(&b, n ? value : text, n ? strlen(value) : 1) < 0)
                        return NULL;
                text += n ? n : 1;
        }
        return buffer_append(&b, "", 1) < 0 ? NULL : strdup(buffer_bytes(&b));
}

static int add_string(struct entry *e, const char *key, yyjson_val *value)
{
        _cleanup_free_ char *text = text_of(value), *new = text ? translated(e, key, text) : NULL;
        unsigned keep, rest;

        if (!new)
                return text && !e->why ? no_memory(e->err) : 0;
        if (strcmp(key, "url") == 0 && secret_in_url(new, &keep, &rest)) {
                char *hidden = hide(e, "url", new, keep, rest);
                free(new);
                new = hidden;
                if (!new)
                        return no_memory(e->err);
        }
        return put_text(e, &e->to, key, new);
}

static int add_argument(struct entry *e, struct json_out *args, const char *after,
                        yyjson_val *value)
{
        _cleanup_free_ char *text = text_of(value),
                            *new = text ? translated(e, "args", text) : NULL;
        unsigned keep = 0, rest = 0;

        if (!text) {
                e->why = "an item of its args is not a string";
                return 0;
        }
        if (!new)
                return e->why ? 0 : no_memory(e->err);
        bool secret = secret_in_argument(after, new, &keep);
        bool url = !secret && secret_in_url(new, &keep, &rest);
        if (secret || url) {
                const char *what = url                       ? "url"
                                   : keep                    ? new
                                   : after &&after[0] == '-' ? after
                                                             : "argument";
                _cleanup_free_ char *option = strndup(what, strcspn(what, "="));
                char *hidden = option ? hide(e, option, new, keep, rest) : NULL;
                free(new);
                new = hidden;
                if (!new)
                        return no_memory(e->err);
        }
        json_out_text(args, NULL, new);
        return 0;
}

static int add_args(struct entry *e, yyjson_val *list, size_t from)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(16 * VALUE_MAX);
        struct json_out args = {.to = &text};
        size_t i, n;
        yyjson_val *item;
        const char *after = NULL;
        int r = 0;

        json_out_begin(&args, NULL, '[');
        yyjson_arr_foreach (list, i, n, item) {
                if (i >= from && r >= 0 && !e->why)
                        r = add_argument(e, &args, after, item);
                after = yyjson_get_str(item);
        }
        json_out_end(&args, ']');
        if (r < 0)
                return r;
        return args.error < 0 ? no_memory(e->err) : put_json(e, &e->to, "args", text_in(&text));
}

/* Variables and headers. */
static int add_pairs(struct entry *e, struct members *to, yyjson_val *object)
{
        size_t i, n;
        yyjson_val *name, *value;

        yyjson_obj_foreach (object, i, n, name, value) {
                const char *variable = yyjson_get_str(name);
                _cleanup_free_ char *text = text_of(value),
                                    *new = text ? translated(e, variable, text) : NULL;
                if (!new && (e->why || !text))
                        continue;
                if (new && !secret_is_plain(variable, new)) {
                        unsigned keep = strncmp(new, "Bearer ", 7) == 0 ? 7 : 0;
                        if (!secret_is_reference(new + keep)) {
                                char *hidden = hide(e, variable, new, keep, 0);
                                free(new);
                                new = hidden;
                        }
                }
                if (!new)
                        return no_memory(e->err);
                if (put_text(e, to, variable, new) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* Names of variables to pass on. */
static int add_passed(struct entry *e, yyjson_val *list)
{
        size_t i, n;
        yyjson_val *item;

        yyjson_arr_foreach (list, i, n, item) {
                const char *name = yyjson_is_obj(item) ? json_string(item, "name", NULL)
                                                       : yyjson_get_str(item);
                char reference_to[NAME_SIZE + 8];
                if (!name || strlen(name) >= NAME_SIZE)
                        continue;
                snprintf(reference_to, sizeof(reference_to), "${%s:-}", name);
                if (put_text(e, &e->env, name, reference_to) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_headers_from(struct entry *e, yyjson_val *object)
{
        size_t i, n;
        yyjson_val *name, *value;

        yyjson_obj_foreach (object, i, n, name, value) {
                char reference_to[NAME_SIZE + 8];
                if (!yyjson_is_str(value) || yyjson_get_len(value) >= NAME_SIZE)
                        continue;
                snprintf(reference_to, sizeof(reference_to), "${%s}", yyjson_get_str(value));
                if (put_text(e, &e->headers, yyjson_get_str(name), reference_to) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_bearer(struct entry *e, yyjson_val *value)
{
        char text[NAME_SIZE + 16];

        if (!yyjson_is_str(value) || yyjson_get_len(value) >= NAME_SIZE)
                return 0;
        snprintf(text, sizeof(text), "Bearer ${%s}", yyjson_get_str(value));
        return put_text(e, &e->headers, "Authorization", text);
}

static int add_time(struct entry *e, const char *key, yyjson_val *value, bool milliseconds)
{
        double number = 0;
        char text[DIGITS];

        if (yyjson_is_str(value))
                return add_string(e, key, value);
        if (json_double(value, &number) < 0 || number <= 0 || number > 1e9)
                return note(e, "%s not taken", key);
        /* More than an hour for one call: the value is in milliseconds. */
        if (!milliseconds && number <= 3600)
                snprintf(text, sizeof(text), "%gs", number);
        else
                snprintf(text, sizeof(text), "%.0fms", number);
        return put_text(e, &e->to, key, text);
}

static int add_timeout(struct entry *e, yyjson_val *value)
{
        bool milliseconds = e->origin->syntax & IMPORT_MILLISECONDS;

        if (yyjson_is_obj(value)) {
                yyjson_val *startup = yyjson_obj_get(value, "startup");
                yyjson_val *request = yyjson_obj_get(value, "request");
                int r = startup ? add_time(e, "start_timeout", startup, true) : 0;
                return r >= 0 && request ? add_time(e, "timeout", request, true) : r;
        }
        return add_time(e, e->origin->syntax & IMPORT_START ? "start_timeout" : "timeout", value,
                        milliseconds);
}

static int add_rules(struct entry *e, const char *key, yyjson_val *list)
{
        char *json = NULL;
        size_t n = 0;

        return json_write(list, &json, &n) < 0 ? no_memory(e->err)
                                               : put_json(e, &e->tools, key, json);
}

static int add_off(struct entry *e, yyjson_val *value, bool off)
{
        if (yyjson_is_bool(value) && yyjson_get_bool(value) == off)
                return put_json(e, &e->to, "disabled", strdup("true"));
        return 0;
}

static int add_command(struct entry *e, yyjson_val *value)
{
        if (!yyjson_is_arr(value))
                return add_string(e, "command", value);
        int r = add_string(e, "command", yyjson_arr_get_first(value));
        return r >= 0 && yyjson_arr_size(value) > 1 ? add_args(e, value, 1) : r;
}

/* By the row of the key in keys.def. */
static int add_member(struct entry *e, const char *name, yyjson_val *value)
{
        enum config_form form;
        const struct config_key *key = config_find_key(CONFIG_SERVER, name, &form);

        if (strcmp(name, "envFile") == 0)
                return note(
                        e, "the variables of its envFile (%s) have to be in Cloister's environment",
                        yyjson_is_str(value) ? yyjson_get_str(value) : "…");
        if (!key)
                return form == CONFIG_FOREIGN ? 0 : note(e, "its \"%s\" is not taken", name);
        if (key->place == CONFIG_RULES)
                return add_rules(e, key->name, value);
        if (key->kind == CONFIG_BOOL)
                return add_off(e, value, form != CONFIG_INVERTED);
        switch (key->code) {
        case CODE_COMMAND:
                return add_command(e, value);
        case CODE_ARGS:
                return add_args(e, value, 0);
        case CODE_ENV:
                return form == CONFIG_VARIABLES ? add_passed(e, value)
                                                : add_pairs(e, &e->env, value);
        case CODE_HEADERS:
                return form == CONFIG_BEARER      ? add_bearer(e, value)
                       : form == CONFIG_VARIABLES ? add_headers_from(e, value)
                                                  : add_pairs(e, &e->headers, value);
        case CODE_TYPE:
                return yyjson_equals_str(value, "sse") ? add_string(e, key->name, value) : 0;
        case CODE_SERVER_TIME:
                return strcmp(name, "timeout") == 0
                               ? add_timeout(e, value)
                               : add_time(e, key->name, value, form == CONFIG_MILLISECONDS);
        default:
                return config_is_text(key) ? add_string(e, key->name, value)
                                           : note(e, "its \"%s\" is not taken", name);
        }
}

/* Clients start the servers of a project in the project's folder. */
static int add_folder(struct entry *e)
{
        if (!e->origin->folder || !get(&e->to, "command") || get(&e->to, "cwd"))
                return 0;
        return put_text(e, &e->to, "cwd", e->origin->folder);
}

/* The address of the server is shown before the entry is used: a project's file may name any. */
static int note_url(struct entry *e)
{
        const char *url = get(&e->to, "url");

        if (!url)
                return 0;
        return note(e, "reached at %.*s%s", (int)strlen(url) - 2, url + 1,
                    e->origin->folder ? ", which a project's file names" : "");
}

static void put_members(struct json_out *out, const struct members *members)
{
        for (size_t i = 0; i < members->n; i++) {
                json_out_key(out, members->items[i].name, strlen(members->items[i].name));
                json_out_raw(out, NULL, members->items[i].json, strlen(members->items[i].json));
        }
}

static char *make_entry(const struct entry *e)
{
        const struct {
                const char *name;
                const struct members *members;
        } objects[] = {{"env", &e->env}, {"headers", &e->headers}, {"tools", &e->tools}};
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(64 * VALUE_MAX);
        struct json_out out = {.to = &text};

        json_out_begin(&out, NULL, '{');
        put_members(&out, &e->to);
        for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
                if (objects[i].members->n == 0)
                        continue;
                json_out_begin(&out, objects[i].name, '{');
                put_members(&out, objects[i].members);
                json_out_end(&out, '}');
        }
        json_out_end(&out, '}');
        return out.error < 0 ? NULL : text_in(&text);
}

/* *ret gets the new entry as JSON in one line, allocated. */
static int translate(struct entry *e, yyjson_val *entry, char **ret)
{
        size_t i, n;
        yyjson_val *key, *value;
        int r = 0;

        yyjson_obj_foreach (entry, i, n, key, value) {
                if (r >= 0 && !e->why)
                        r = add_member(e, yyjson_get_str(key), value);
        }
        if (r >= 0)
                r = add_folder(e);
        if (r >= 0)
                r = note_url(e);
        *ret = r >= 0 ? make_entry(e) : NULL;
        members_done(&e->to);
        members_done(&e->env);
        members_done(&e->headers);
        members_done(&e->tools);
        return r < 0 || *ret ? r : no_memory(e->err);
}

/* All return 0, or negative errno with an error; -ENOMEM anywhere ends the import. */

/* ---- the list ---- */

static void forget_secrets(struct import *import, size_t from)
{
        for (; import->n_secrets > from; import->n_secrets--) {
                struct import_secret *secret = &import->secrets[import->n_secrets - 1];
                free(secret->variable);
                free(secret->server);
                free(secret->what);
                free(secret->file);
                free(secret->value);
        }
}

static void free_items(struct import_item *items, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                free(items[i].name);
                free(items[i].client);
                free(items[i].file);
                free(items[i].text);
                free(items[i].entry);
        }
        free(items);
}

void import_done(struct import *import)
{
        forget_secrets(import, 0);
        free(import->secrets);
        free_items(import->taken, import->n_taken);
        free_items(import->left_out, import->n_left_out);
        entry_text_done(&import->existing);
        *import = (struct import){};
}

/* Takes entry. */
static int add_item(struct import_item **list, size_t *n, const struct import_origin *origin,
                    const char *name, const char *text, char *entry, struct error *err)
{
        struct import_item *grown = reallocarray(*list, *n + 1, sizeof(*grown));

        if (!grown) {
                free(entry);
                return no_memory(err);
        }
        *list = grown;
        struct import_item *item = &grown[(*n)++];
        *item = (struct import_item){strdup(name), strdup(origin->client), strdup(origin->file),
                                     text ? strdup(text) : NULL, entry};
        return item->name && item->client && item->file && (!text || item->text) ? 0
                                                                                 : no_memory(err);
}

int import_leave_out(struct import *import, const struct import_origin *origin, const char *name,
                     const char *why, struct error *err)
{
        return add_item(&import->left_out, &import->n_left_out, origin, name, why, NULL, err);
}

static const struct import_item *find_taken(const struct import *import, const char *name)
{
        for (size_t i = 0; i < import->n_taken; i++)
                if (strcmp(import->taken[i].name, name) == 0)
                        return &import->taken[i];
        return NULL;
}

/* Reads the entry as Cloister will read it. Returns why it cannot be used, "" if it can. */
static int try_entry(const char *name, const char *entry, char *why, size_t size)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(TEXT_MAX);
        struct config *config = config_new();
        struct error err = {};

        *why = '\0';
        int r = config ? buffer_append_text(&b, "{\"mcpServers\": {") : -ENOMEM;
        if (r >= 0)
                r = json_append_string(&b, name, strlen(name));
        if (r >= 0)
                r = buffer_append_text(&b, ": ");
        if (r >= 0)
                r = buffer_append_text(&b, entry);
        if (r >= 0)
                r = buffer_append_text(&b, "}}");
        if (r >= 0)
                r = config_add(config, name, buffer_bytes(&b), b.length, &err);
        if (r < 0 && r != -ENOMEM)
                snprintf(why, size, "%s", err.text);
        else if (r >= 0 && config_server_is_ourselves(&config->servers[0]))
                snprintf(why, size, "it is Cloister itself");
        else if (r >= 0 && config->servers[0].problem)
                snprintf(why, size, "%s", config->servers[0].problem);
        config_free(config);
        return r == -ENOMEM ? r : 0;
}

int import_take(struct import *import, const struct import_origin *origin, const char *name,
                yyjson_val *entry, struct error *err)
{
        _cleanup_buffer_ struct buffer notes = BUFFER_INIT(NOTES_MAX);
        size_t n_secrets = import->n_secrets;
        const struct import_item *other = find_taken(import, name);
        _cleanup_free_ char *new = NULL;
        struct entry e = {
                .import = import, .origin = origin, .name = name, .notes = &notes, .err = err};
        char text[512] = "";

        int r = translate(&e, entry, &new);
        const char *why = e.why;
        if (r < 0)
                return r;
        if (!why && try_entry(name, new, text, sizeof(text)) < 0)
                return no_memory(err);
        if (!why && *text)
                why = text;
        if (!why && entry_text_find(&import->existing, name))
                why = "your config has a server of this name";
        if (!why && other && strcmp(new, other->entry) == 0)
                snprintf(text, sizeof(text), "the same as that of %s", other->client);
        else if (!why && other)
                snprintf(text, sizeof(text),
                         "another server of this name was taken from %s; rename one of them",
                         other->client);
        if (!why && *text)
                why = text;
        if (why) {
                forget_secrets(import, n_secrets);
                return import_leave_out(import, origin, name, why, err);
        }
        if (buffer_append(&notes, "", 1) < 0)
                return no_memory(err);
        return add_item(&import->taken, &import->n_taken, origin, name,
                        notes.length > 1 ? buffer_bytes(&notes) : NULL, take_ptr(new), err);
}
