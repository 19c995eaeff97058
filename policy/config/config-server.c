/* A server of a config in memory. */
#include <errno.h>
#include <stdlib.h>

#include "policy/config/config-internal.h"

static uint64_t hash(uint64_t h, const char *text)
{
        /* FNV-1a (Fowler, Noll, Vo), the terminator included, so that ["ab"] and ["a", "b"] differ.
         */
        for (const char *p = text ? text : "\1";; p++) {
                h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
                if (*p == '\0')
                        return h;
        }
}

static uint64_t hash_list(uint64_t h, char *const *list)
{
        for (; list && *list; list++)
                h = hash(h, *list);
        return hash(h, NULL);
}

uint64_t config_server_key(const struct config_server *s)
{
        uint64_t h = 0xcbf29ce484222325ull;

        h = hash(h, s->command);
        h = hash(h, s->url);
        h = hash(h, s->cwd);
        for (size_t i = 0; i < s->n_args; i++)
                h = hash(h, s->args[i]);
        h = hash(h, NULL); /* separates args from env */
        for (size_t i = 0; i < s->n_env; i++)
                h = hash(h, s->env[i]);
        if (s->transport == CONFIG_STDIO)
                return h;
        h = hash(h, s->transport == CONFIG_SSE ? "sse" : "http");
        h = hash_list(h, s->headers);
        h = hash(h, s->token_file);
        return hash_list(h, s->token_command);
}

void config_server_done(struct config_server *s)
{
        free(s->name);
        free(s->command);
        free(s->url);
        config_list_free(s->headers);
        free(s->token_file);
        config_list_free(s->token_command);
        config_oauth_done(&s->oauth);
        config_list_free(s->args);
        config_list_free(s->env);
        free(s->cwd);
        free(s->description);
        free(s->place);
        free(s->problem);
        config_rules_done(&s->tools);
        *s = (struct config_server){};
}

static int copy_text(char **to, const char *from)
{
        return from ? config_set_text(to, from) : 0;
}

int config_server_copy(const struct config_server *from, struct config_server *ret)
{
        struct config_server s = {
                .n_args = from->n_args,
                .n_env = from->n_env,
                .disabled = from->disabled,
                .timeout_ms = from->timeout_ms,
                .start_timeout_ms = from->start_timeout_ms,
                .transport = from->transport,
                .key = from->key,
        };

        if (copy_text(&s.name, from->name) < 0 || copy_text(&s.command, from->command) < 0 ||
            copy_text(&s.url, from->url) < 0 || copy_text(&s.cwd, from->cwd) < 0 ||
            copy_text(&s.description, from->description) < 0 ||
            copy_text(&s.place, from->place) < 0 || copy_text(&s.problem, from->problem) < 0 ||
            config_list_copy(&s.tools.allow, from->tools.allow) < 0 ||
            config_list_copy(&s.tools.deny, from->tools.deny) < 0 ||
            copy_text(&s.token_file, from->token_file) < 0 ||
            config_oauth_copy(&from->oauth, &s.oauth) < 0 ||
            config_list_copy(&s.headers, from->headers) < 0 ||
            config_list_copy(&s.token_command, from->token_command) < 0 ||
            config_list_copy(&s.args, from->args) < 0 || config_list_copy(&s.env, from->env) < 0) {
                config_server_done(&s);
                return -ENOMEM;
        }
        *ret = s;
        return 0;
}
