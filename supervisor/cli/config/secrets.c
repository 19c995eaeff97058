/* What looks like a secret in a server's entry. */
#include "supervisor/cli/config/secrets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mask.h"

enum { WORD_MAX = 16, DIGITS_MAX = 8, PATH_PART_MAX = 64 };

bool secret_is_reference(const char *value)
{
        if (*value == '\0')
                return false;
        while (*value) {
                const char *end = value[0] == '$' && value[1] == '{' ? strchr(value, '}') : NULL;
                if (!end)
                        return false;
                value = end + 1;
        }
        return true;
}

static bool is_word(const char *value)
{
        size_t n = strlen(value);

        for (size_t i = 0; i < n; i++)
                if (!isalpha((unsigned char)value[i]) && value[i] != '_' && value[i] != '-')
                        return false;
        return n <= WORD_MAX;
}

static bool is_number(const char *value)
{
        size_t n = strlen(value);

        return n > 0 && n <= DIGITS_MAX && strspn(value, "0123456789.") == n;
}

/* Checks each component, since a path may contain a token. */
static bool parts_are_plain(const char *path)
{
        while (*path) {
                path += strspn(path, "/");
                size_t n = strcspn(path, "/");
                _cleanup_free_ char *part = strndup(path, n);
                if (!part || n > PATH_PART_MAX || mask_value_is_secret(part))
                        return false;
                path += n;
        }
        return true;
}

static bool is_path(const char *value)
{
        return (value[0] == '/' || value[0] == '~' || strncmp(value, "./", 2) == 0 ||
                strncmp(value, "../", 3) == 0) &&
               parts_are_plain(value);
}

static bool is_url(const char *value)
{
        return strstr(value, "://") != NULL;
}

bool secret_in_url(const char *url, unsigned *keep, unsigned *rest)
{
        const char *scheme = strstr(url, "://");
        size_t n = strlen(url);

        if (!scheme)
                return false;
        const char *host = scheme + 3, *path = host + strcspn(host, "/?#");
        const char *at = memrchr(host, '@', (size_t)(path - host));
        const char *query = path + strcspn(path, "?#");
        if (at) {
                *keep = (unsigned)(host - url);
                *rest = *query ? 0 : (unsigned)(n - (size_t)(at - url));
                return true;
        }
        if (*query && query[1]) {
                *keep = (unsigned)(query + 1 - url);
                *rest = 0;
                return true;
        }
        if (parts_are_plain(path))
                return false;
        *keep = (unsigned)(path + 1 - url);
        *rest = 0;
        return true;
}

bool secret_is_plain(const char *name, const char *value)
{
        unsigned keep, rest;

        if (*value == '\0' || secret_is_reference(value))
                return true;
        if (mask_name_is_secret(name) || mask_value_is_secret(value))
                return false;
        if (is_url(value))
                return !secret_in_url(value, &keep, &rest);
        return is_word(value) || is_number(value) || is_path(value);
}

bool secret_in_argument(const char *after, const char *argument, unsigned *keep)
{
        const char *equals = strchr(argument, '=');
        bool option = after && after[0] == '-' && !strchr(after, '=');

        *keep = 0;
        if (secret_is_reference(argument) || (equals && secret_is_reference(equals + 1)))
                return false;
        if (option && mask_name_is_secret(after) && argument[0] != '-' && *argument)
                return true;
        if (!equals)
                return mask_value_is_secret(argument);
        *keep = (unsigned)(equals + 1 - argument);
        _cleanup_free_ char *name = strndup(argument, (size_t)(equals - argument));
        return !name || mask_name_is_secret(name) || mask_value_is_secret(equals + 1);
}
