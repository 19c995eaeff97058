/* Names of sessions. */
#include "supervisor/session/cell/session-name.h"

#include <string.h>

bool session_name_valid(const char *name, size_t n)
{
        if (n == 0 || n > SESSION_NAME_MAX || name[0] == '.' || name[0] == '-')
                return false;
        for (size_t i = 0; i < n; i++) {
                char c = name[i];
                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.' || c == '-'))
                        return false;
        }
        return true;
}

bool session_key_valid(const char *key, size_t n)
{
        const char *colon = memchr(key, ':', n);
        size_t before = colon ? (size_t)(colon - key) : 0;

        if (!colon)
                return session_name_valid(key, n);
        return session_name_valid(key, before) && session_name_valid(colon + 1, n - before - 1);
}

static char *append(char *at, const char *end, const char *text)
{
        while (at < end && *text)
                *at++ = *text++;
        return at;
}

/* Several times a call, and snprintf() takes ten times as long. */
void session_key_make(const char *principal, const char *name, char ret[SESSION_KEY_MAX + 1])
{
        const char *end = ret + SESSION_KEY_MAX;
        char *at = append(ret, end, principal);

        if (at > ret)
                at = append(at, end, ":");
        *append(at, end, name) = '\0';
}

const char *session_key_name(const char *key)
{
        const char *colon = strchr(key, ':');

        return colon ? colon + 1 : key;
}

bool session_key_is_of(const char *key, const char *principal)
{
        const char *name = session_key_name(key);
        size_t n = strlen(principal);

        return n == 0 ? name == key : name == key + n + 1 && strncmp(key, principal, n) == 0;
}

bool session_key_is_beside(const char *key, const char *other)
{
        size_t n = (size_t)(session_key_name(key) - key);

        return n == (size_t)(session_key_name(other) - other) && memcmp(key, other, n) == 0;
}
