/* The secrets of a config, which are masked in the log. */
#include <string.h>

#include "base/mask.h"
#include "policy/config/config.h"

/* user:password@ of a url. */
static void mask_url(const char *url)
{
        char password[256];
        const char *from = url ? strstr(url, "://") : NULL;
        const char *at = from ? strchr(from, '@') : NULL;
        const char *colon = from ? strchr(from + 3, ':') : NULL;

        if (!at || !colon || colon > at || (size_t)(at - colon) > sizeof(password))
                return;
        memcpy(password, colon + 1, (size_t)(at - colon - 1));
        password[at - colon - 1] = '\0';
        mask_add(password);
}

void config_server_mask(const struct config_server *server)
{
        for (size_t i = 0; i < server->n_env; i++) {
                char name[128];
                const char *equals = strchr(server->env[i], '=');
                size_t n = equals ? (size_t)(equals - server->env[i]) : 0;

                if (!equals || n >= sizeof(name) || strncmp(equals + 1, "${", 2) == 0)
                        continue;
                memcpy(name, server->env[i], n);
                name[n] = '\0';
                if (mask_name_is_secret(name) || mask_value_is_secret(equals + 1))
                        mask_add(equals + 1);
        }
        for (size_t i = 0; i < server->n_args; i++) {
                bool follows = i > 0 && server->args[i - 1][0] == '-' &&
                               mask_name_is_secret(server->args[i - 1]);
                if (follows || mask_value_is_secret(server->args[i]))
                        mask_add(server->args[i]);
        }
        for (char *const *header = server->headers; header && *header; header++) {
                const char *value = *header + strcspn(*header, ":") + 2;
                if (strstr(value, "${"))
                        continue;
                mask_add(value);
                if (strchr(value, ' ')) /* "Bearer TOKEN" */
                        mask_add(strchr(value, ' ') + 1);
        }
        mask_url(server->url);
}
