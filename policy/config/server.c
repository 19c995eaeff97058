/* A server of a config. */
#include "policy/config/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
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
        h = hash_list(h, s->args); /* separates args from env, too */
        for (size_t i = 0; i < s->n_env; i++)
                h = hash(h, s->env[i]);
        if (s->per_principal)
                h = hash(h, "principal");
        if (!s->apart)
                h = hash(h, "not apart");
        if (s->transport == CONFIG_STDIO)
                return h;
        h = hash(h, s->transport == CONFIG_SSE ? "sse" : "http");
        h = hash_list(h, s->headers);
        h = hash(h, s->token_file);
        return hash_list(h, s->token_command);
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

/* ---- ${VAR}, ${VAR:-default}, ${credential:NAME} and ~ in what a server is started with ---- */

enum {
        EXPANDED_MAX = 128 *
                       1024, /* of one string: execve() takes no longer one (MAX_ARG_STRLEN) */
        VARIABLE_MAX = 255,
};

static const char credential[] = "credential:";

static bool is_name(const char *text, size_t n)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

        return n > 0 && n <= VARIABLE_MAX && strspn(text, letters) >= n &&
               !(text[0] >= '0' && text[0] <= '9');
}

/* Fails closed: such a reference is never passed on as it stands. */
static int append_credential(struct buffer *to, const char *name, size_t n,
                             const struct config_values *values, struct error *err)
{
        _cleanup_free_ char *key = strndup(name, n);
        char *value = NULL;

        if (!key)
                return error_errno(err, ENOMEM, "expand");
        int r = values->credential ? values->credential(key, &value, err)
                                   : error_set(err, EINVAL, "${credential:%s}: not here", key);
        if (r < 0)
                return r;
        r = buffer_append(to, value, strlen(value));
        explicit_bzero(value, strlen(value));
        free(value);
        return r;
}

/* Appends the value of the variable between braces. Returns 0, or 1 if the text is not a reference,
 * which the caller copies unchanged. */
static int append_variable(struct buffer *to, const char *inner, size_t n,
                           const struct config_values *values, struct error *err)
{
        const char *fallback = memmem(inner, n, ":-", 2);
        size_t length = fallback ? (size_t)(fallback - inner) : n;
        char name[VARIABLE_MAX + 1];

        if (n >= sizeof(credential) - 1 && memcmp(inner, credential, sizeof(credential) - 1) == 0)
                return append_credential(to, inner + sizeof(credential) - 1,
                                         n - (sizeof(credential) - 1), values, err);
        if (!is_name(inner, length))
                return 1;
        memcpy(name, inner, length);
        name[length] = '\0';
        const char *value = values->variable(name);
        /* As in a shell, :- also applies to an empty variable. */
        if (fallback && (!value || *value == '\0'))
                return buffer_append(to, fallback + 2, n - length - 2);
        if (!value)
                return error_set(err, ENOKEY,
                                 "${%s}: the variable is not set; set it, or write ${%s:-default}",
                                 name, name);
        return buffer_append(to, value, strlen(value));
}

static int append_home(struct buffer *to, const struct config_values *values, struct error *err)
{
        const char *home = values->variable("HOME");

        if (!home || *home == '\0')
                return error_set(err, ENOKEY, "~: HOME is not set");
        return buffer_append(to, home, strlen(home));
}

/* Appends the text up to the next reference, and its value. Returns the number of bytes consumed or
 * negative errno. */
static ssize_t append_piece(struct buffer *to, const char *text, const struct config_values *values,
                            struct error *err)
{
        size_t plain = strcspn(text, "$");
        const char *end;
        int r = buffer_append(to, text, plain);

        if (r < 0 || text[plain] == '\0')
                return r < 0 ? r : (ssize_t)plain;
        text += plain;
        end = text[1] == '{' ? strchr(text, '}') : NULL;
        r = end ? append_variable(to, text + 2, (size_t)(end - text - 2), values, err) : 1;
        if (r < 0)
                return r;
        if (r == 0)
                return (ssize_t)(plain + (size_t)(end - text) + 1);
        r = buffer_append(to, text, 1);
        return r < 0 ? r : (ssize_t)plain + 1;
}

static int append_expanded(struct buffer *to, const char *text, const struct config_values *values,
                           struct error *err)
{
        if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
                int r = append_home(to, values, err);
                if (r < 0)
                        return r;
                text++;
        }
        while (*text) {
                ssize_t n = append_piece(to, text, values, err);
                if (n < 0)
                        return (int)n;
                text += n;
        }
        return buffer_append(to, "", 1);
}

/* Expands *text, starting at byte `from`. what: names the text in the error message. */
static int expand(char **text, size_t from, const char *what, const struct config_values *values,
                  struct error *err)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(EXPANDED_MAX);
        struct error why = {};

        if (!*text || !strpbrk(*text + from, "$~"))
                return 0;
        int r = buffer_append(&to, *text, from);
        if (r >= 0)
                r = append_expanded(&to, *text + from, values, &why);
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE, "%s: longer than 128 KiB once expanded", what);
        if (r < 0)
                return error_set(err, -r, "%s: %s", what,
                                 error_is_set(&why) ? why.text : "no memory");
        return config_set_text(text, buffer_bytes(&to));
}

int config_server_expand(struct config_server *server, const struct config_values *values,
                         struct error *err)
{
        int r = expand(&server->command, 0, "command", values, err);

        if (r >= 0)
                r = expand(&server->cwd, 0, "cwd", values, err);
        for (size_t i = 0; i < server->n_args && r >= 0; i++)
                r = expand(&server->args[i], 0, "args", values, err);
        for (size_t i = 0; i < server->n_env && r >= 0; i++)
                r = expand(&server->env[i], strcspn(server->env[i], "=") + 1, "env", values, err);
        if (r >= 0)
                r = expand(&server->url, 0, "url", values, err);
        if (r >= 0)
                r = expand(&server->token_file, 0, "token", values, err);
        for (char **header = server->headers; header && *header && r >= 0; header++)
                r = expand(header, strcspn(*header, ":") + 2, "headers", values, err);
        for (char **part = server->token_command; part && *part && r >= 0; part++)
                r = expand(part, 0, "token", values, err);
        if (r == -ENOMEM && !error_is_set(err))
                error_errno(err, ENOMEM, "expand");
        if (r >= 0 && config_server_is_ourselves(server))
                r = error_set(err, ELOOP, "it would start Cloister inside Cloister");
        return r < 0 ? error_context(err, "server \"%s\"", server->name) : 0;
}

int config_oauth_expand(struct config_oauth *oauth, const struct config_values *values,
                        struct error *err)
{
        int r = expand(&oauth->client_secret_file, 0, "client_secret_file", values, err);

        if (r >= 0)
                r = expand(&oauth->private_key_file, 0, "private_key_file", values, err);
        return r < 0 ? r : expand(&oauth->client_secret, 0, "client_secret", values, err);
}

int config_expand(const char *text, const char *what, const struct config_values *values,
                  char **ret, struct error *err)
{
        char *copy = NULL;
        int r = config_set_text(&copy, text);

        if (r >= 0)
                r = expand(&copy, 0, what, values, err);
        if (r >= 0)
                *ret = take_ptr(copy);
        free(copy);
        return r;
}

int config_packages_index(const struct config_packages *packages, enum language language,
                          const struct config_values *values, char **ret, struct error *err)
{
        bool npm = language == LANGUAGE_JAVASCRIPT;
        const char *given = npm ? packages->registry : packages->index;

        *ret = NULL;
        return given ? config_expand(given, npm ? "packages.registry" : "packages.index", values,
                                     ret, err)
                     : 0;
}
