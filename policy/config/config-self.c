/*
 * Whether a server's command is Cloister itself.
 *
 * A client's config names Cloister among its servers, and the same file is often passed to Cloister,
 * which would then start itself again and again. The command may be wrapped by env, sh -c, npx or
 * sudo, so every word of the command line is checked: a word whose last path component is the
 * program, followed by the word "mcp".
 */
#include <string.h>

#include "policy/config/config-internal.h"

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
