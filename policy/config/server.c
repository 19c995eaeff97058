/* A server of a config. */
#include "policy/config/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/mask.h"
#include "policy/config/keys.h"

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

void config_server_done(struct config_server *server)
{
        config_done(CONFIG_SERVER, server);
}

int config_server_copy(const struct config_server *server, struct config_server *ret)
{
        return config_copy(CONFIG_SERVER, server, ret);
}

/*
 * A client's config names Cloister among its servers, and the same file is often passed to Cloister,
 * which would then start itself again and again. The command may be wrapped by env, sh -c, npx or
 * sudo, so every word of the command line is checked: a word whose last path component is the
 * program, followed by the word "mcp".
 */
static const char word_ends[] = " \t\n;&|()'\"=";

/* "…/cloister", "cloister@latest", "cloister==0.1" */
static bool is_program(const char *word, size_t n)
{
        static const char program[] = "cloister";
        const char *slash = memrchr(word, '/', n);

        if (slash) {
                n -= (size_t)(slash + 1 - word);
                word = slash + 1;
        }
        size_t length = strcspn(word, "@=");
        if (length > n)
                length = n;
        return (length == strlen(program) && memcmp(word, program, length) == 0) ||
               (n == strlen("cloister-monitor") && memcmp(word, "cloister-monitor", n) == 0);
}

struct scan {
        bool program; /* seen */
        bool mcp;     /* seen after it */
};

static void scan_words(struct scan *scan, const char *text)
{
        while (*text) {
                size_t n = strcspn(text, word_ends);
                if (scan->program && n == 3 && memcmp(text, "mcp", 3) == 0)
                        scan->mcp = true;
                if (n > 0 && is_program(text, n))
                        scan->program = true;
                text += n;
                text += strspn(text, word_ends);
        }
}

bool config_server_is_ourselves(const struct config_server *server)
{
        struct scan scan = {};

        if (!server->command)
                return false;
        if (is_program(server->command, strlen(server->command)))
                return true;
        scan_words(&scan, server->command);
        for (size_t i = 0; i < server->n_args; i++)
                scan_words(&scan, server->args[i]);
        return scan.mcp;
}

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
