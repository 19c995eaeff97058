/* "ask" of a profile. */
#include "policy/config/ask-keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned bit_of(const char *word)
{
        return strcmp(word, "client") == 0     ? CONFIG_ASK_CLIENT
               : strcmp(word, "terminal") == 0 ? CONFIG_ASK_TERMINAL
               : strcmp(word, "page") == 0     ? CONFIG_ASK_PAGE
                                               : 0;
}

int config_check_ask_by(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        if (!list[0])
                return config_mistake(r, value,
                                      "ask.by: name \"client\", \"terminal\", \"page\" or several");
        for (size_t i = 0; list[i]; i++) {
                if (bit_of(list[i]) == 0)
                        return config_mistake(
                                r, yyjson_arr_get(value, i),
                                "ask.by: item %zu must be \"client\", \"terminal\" or \"page\"",
                                i + 1);
        }
        return 0;
}

/* The port, as browsers write it in an Origin: "", or ":8443"; not that of the scheme. */
static bool is_port(const char *text, bool is_https)
{
        size_t n = strlen(text);

        if (n == 0)
                return true;
        return text[0] == ':' && n >= 2 && n <= 6 && text[1] != '0' &&
               strspn(text + 1, "0123456789") == n - 1 && atoi(text + 1) <= 65535 &&
               strcmp(text, is_https ? ":443" : ":80") != 0;
}

/* The token is typed into the page: in the clear it may go to this machine only. */
static bool is_page(const char *text)
{
        bool is_https = strncmp(text, "https://", 8) == 0;

        if (strlen(text) > CONFIG_ASK_PAGE_MAX || (!is_https && strncmp(text, "http://", 7) != 0))
                return false;
        const char *host = text + (is_https ? 8 : 7);
        size_t n = *host == '[' ? 1 + strspn(host + 1, "0123456789abcdef:")
                                : strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789.-");
        if (*host == '[' && host[n++] != ']')
                return false;
        bool is_local = (n == 9 && strncmp(host, "localhost", n) == 0) ||
                        (n == 9 && strncmp(host, "127.0.0.1", n) == 0) ||
                        (n == 5 && strncmp(host, "[::1]", n) == 0);
        return n > 0 && (is_https || is_local) && is_port(host + n, is_https);
}

int config_check_ask_page(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (is_page(*(char **)config_member(key, r->into)))
                return 0;
        return config_mistake(
                r, value,
                "ask.page must be an address such as \"https://cloister.example.org:8443\": https (http only for this machine), a host in lower case, no path, and no port that is the scheme's own");
}

unsigned config_ask_by(const struct config_ask *ask)
{
        unsigned bits = ask->by ? 0 : CONFIG_ASK_CLIENT | CONFIG_ASK_TERMINAL | CONFIG_ASK_PAGE;

        for (size_t i = 0; ask->by && ask->by[i]; i++)
                bits |= bit_of(ask->by[i]);
        return ask->page ? bits : bits & ~(unsigned)CONFIG_ASK_PAGE;
}

int config_check_asks(const struct config *config, struct error *err)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_ask *ask = &config->profiles[i].ask;
                for (size_t k = 0; !ask->page && ask->by && ask->by[k]; k++) {
                        if (bit_of(ask->by[k]) == CONFIG_ASK_PAGE)
                                return error_set(
                                        err, EINVAL,
                                        "profile \"%s\": ask.by names \"page\": ask.page must be the address of 'cloister serve'",
                                        config->profiles[i].name);
                }
        }
        return 0;
}

bool config_has_ask_page(const struct config *config)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                if (config->profiles[i].ask.page)
                        return true;
        }
        return false;
}

bool config_is_ask_page(const struct config *config, const char *origin)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const char *page = config->profiles[i].ask.page;
                if (page && strcmp(page, origin) == 0)
                        return true;
        }
        return false;
}

void config_drop_ask_pages(struct config *config)
{
        free(config->top.ask.page);
        config->top.ask.page = NULL;
        for (size_t i = 0; i < config->n_profiles; i++) {
                free(config->profiles[i].ask.page);
                config->profiles[i].ask.page = NULL;
        }
}
