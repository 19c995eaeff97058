/* The settings of cloister-inject. */
#include "supervisor/inject/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

int inject_settings_host(const struct inject_settings *settings, const char *name, uint16_t port)
{
        for (size_t i = 0; i < settings->n_hosts; i++)
                if (settings->hosts[i].port == port && strcmp(settings->hosts[i].name, name) == 0)
                        return (int)i;
        return -1;
}

/* "HOST:PORT", as policy/config writes it. */
static int add_host(struct inject_settings *s, uint32_t *hosts, const char *text)
{
        const char *colon = text ? strrchr(text, ':') : NULL;
        long port = colon ? strtol(colon + 1, NULL, 10) : 0;
        char name[INJECT_HOST_SIZE];

        if (port < 1 || port > UINT16_MAX || (size_t)(colon - text) >= sizeof(name))
                return -EINVAL;
        snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
        int index = inject_settings_host(s, name, (uint16_t)port);
        if (index < 0) {
                if (s->n_hosts == INJECT_HOSTS_MAX)
                        return -E2BIG;
                index = (int)s->n_hosts++;
                memcpy(s->hosts[index].name, name, sizeof(name));
                s->hosts[index].port = (uint16_t)port;
        }
        *hosts |= UINT32_C(1) << index;
        return 0;
}

static unsigned place_of(const char *text)
{
        if (text && strcmp(text, "query") == 0)
                return INJECT_QUERY;
        if (text && strcmp(text, "body") == 0)
                return INJECT_BODY;
        return text && strcmp(text, "header") == 0 ? INJECT_HEADERS : 0;
}

static int add_secret(struct inject_settings *s, yyjson_val *entry, yyjson_val *values,
                      struct error *err)
{
        struct inject_secret *secret = &s->secrets[s->n_secrets];
        const char *name = json_string(entry, "name", NULL);
        yyjson_val *item;
        size_t i, n, length = 0;
        int r = 0;

        if (!name || s->n_secrets == INJECT_SECRETS_MAX || strlen(name) >= sizeof(secret->name))
                return error_set(err, EINVAL, "secrets: not as agreed");
        snprintf(secret->name, sizeof(secret->name), "%s", name);
        yyjson_arr_foreach (yyjson_obj_get(entry, "in"), i, n, item)
                secret->places |= place_of(yyjson_get_str(item));
        yyjson_arr_foreach (yyjson_obj_get(entry, "to"), i, n, item)
                if (r >= 0)
                        r = add_host(s, &secret->hosts, yyjson_get_str(item));
        if (r < 0 || !secret->places)
                return error_set(err, EINVAL, "secret %s: not as agreed", name);
        const char *value = json_string(values, name, &length);
        if (!value)
                return error_set(err, ENOENT, "secret %s: has no value", name);
        if (length > INJECT_VALUE_MAX)
                return error_set(err, E2BIG, "secret %s: its value has more than 4096 bytes", name);
        for (const char *c = value; *c; c++)
                if ((unsigned char)*c < ' ' || *c == 127)
                        return error_set(err, EINVAL,
                                         "secret %s: its value has a control character", name);
        secret->value = strdup(value);
        secret->n_value = length;
        s->n_secrets++;
        return secret->value ? 0 : error_errno(err, ENOMEM, "secrets");
}

static void forget_values(struct inject_settings *settings)
{
        for (size_t i = 0; i < settings->n_secrets; i++) {
                struct inject_secret *secret = &settings->secrets[i];
                if (secret->value)
                        explicit_bzero(secret->value, secret->n_value);
                free(secret->value);
        }
        *settings = (struct inject_settings){};
}

int inject_settings_read(struct inject_settings *ret, const char *text, const char *values,
                         size_t n_values, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        _cleanup_json_ yyjson_doc *all = NULL;
        yyjson_val *entry;
        size_t i, n;

        *ret = (struct inject_settings){};
        int r = text ? json_parse(text, strlen(text), &doc, err)
                     : error_set(err, EINVAL, INJECT_VARIABLE " is missing");
        if (r >= 0)
                r = json_parse(values, n_values, &all, err);
        if (r < 0)
                return r;
        yyjson_arr_foreach (yyjson_obj_get(yyjson_doc_get_root(doc), "secrets"), i, n, entry)
                if (r >= 0)
                        r = add_secret(ret, entry, yyjson_doc_get_root(all), err);
        yyjson_arr_foreach (yyjson_obj_get(yyjson_doc_get_root(doc), "inspect"), i, n, entry)
                if (r >= 0 && add_host(ret, &ret->inspected, yyjson_get_str(entry)) < 0)
                        r = error_set(err, EINVAL, "inspect: not as agreed");
        if (r < 0)
                forget_values(ret);
        return r;
}
