/* Reads WWW-Authenticate. Bytes that fit no rule end the reading: what was read before counts. */
#include "rpc/challenge.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { VALUE_MAX = 4096 };

struct text {
        const char *at, *end;
};

static bool is_token(char c)
{
        static const char others[] = "!#$%&'*+-.^_`|~";

        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr(others, c));
}

static void skip(struct text *t, const char *set)
{
        while (t->at < t->end && *t->at != '\0' && strchr(set, *t->at))
                t->at++;
}

static size_t take_token(struct text *t, const char **ret)
{
        const char *from = t->at;

        while (t->at < t->end && is_token(*t->at))
                t->at++;
        *ret = from;
        return (size_t)(t->at - from);
}

/* A quoted string, without its quotes and escapes. Returns its length, or -1 if it does not end. A
 * string that does not fit becomes empty. */
static int take_quoted(struct text *t, char value[VALUE_MAX])
{
        size_t n = 0;

        for (t->at++; t->at < t->end && *t->at != '"'; t->at++) {
                if (*t->at == '\\' && ++t->at == t->end)
                        return -1;
                if (n < VALUE_MAX)
                        value[n] = *t->at;
                n++;
        }
        if (t->at == t->end)
                return -1;
        t->at++;
        return n >= VALUE_MAX ? 0 : (int)n;
}

/* The value behind the equals sign. */
static int take_value(struct text *t, char value[VALUE_MAX])
{
        const char *from = NULL;

        skip(t, " \t");
        if (t->at < t->end && *t->at == '"')
                return take_quoted(t, value);
        size_t n = take_token(t, &from);
        if (n == 0)
                return -1;
        if (n >= VALUE_MAX)
                return 0;
        memcpy(value, from, n);
        return (int)n;
}

static void keep(char *to, size_t size, const char *value, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (value[i] < 0x20 || value[i] > 0x7e)
                        return;
        if (n >= size || *to != '\0') /* the first counts */
                return;
        memcpy(to, value, n);
        to[n] = '\0';
}

static void keep_scope(struct challenge *ret, const char *value, size_t n)
{
        char text[CHALLENGE_SCOPE_MAX + 1] = "";

        keep(text, sizeof(text), value, n);
        if (*ret->scope == '\0')
                scope_add(ret->scope, sizeof(ret->scope), text);
}

static void take_parameter(struct challenge *ret, const char *name, size_t length,
                           const char *value, size_t n)
{
        if (length == 5 && strncasecmp(name, "error", 5) == 0)
                keep(ret->error, sizeof(ret->error), value, n);
        else if (length == 5 && strncasecmp(name, "scope", 5) == 0)
                keep_scope(ret, value, n);
        else if (length == 17 && strncasecmp(name, "resource_metadata", 17) == 0)
                keep(ret->resource_metadata, sizeof(ret->resource_metadata), value, n);
}

/* Takes "name=value" whose name was taken. Returns false if it is not a parameter. */
static bool take_assignment(struct text *t, struct challenge *ret, bool wanted, const char *name,
                            size_t length)
{
        struct text after = *t;
        char value[VALUE_MAX];

        skip(&after, " \t");
        if (after.at == after.end || *after.at != '=')
                return false;
        after.at++;
        int n = take_value(&after, value);
        if (n < 0) {
                /* The end of a token68, or nonsense: on to the next comma. */
                while (after.at < after.end && *after.at != ',')
                        after.at++;
        } else if (wanted) {
                take_parameter(ret, name, length, value, (size_t)n);
        }
        *t = after;
        return true;
}

int challenge_parse(const char *text, size_t n, struct challenge *ret)
{
        struct text t = {text, text + n};
        bool bearer = false, found = false, scheme = false;
        const char *name = NULL;

        *ret = (struct challenge){};
        for (;;) {
                skip(&t, " \t,");
                size_t length = take_token(&t, &name);
                if (length == 0)
                        break;
                if (scheme && take_assignment(&t, ret, bearer, name, length))
                        continue;
                bearer = !found && length == 6 && strncasecmp(name, "bearer", 6) == 0;
                found = found || bearer;
                scheme = true;
        }
        return found ? 0 : -ENOENT;
}

static bool is_scope(char c)
{
        return c > ' ' && c < 0x7f && c != '"' && c != '\\';
}

static bool has_one(const char *set, const char *scope, size_t n)
{
        while (*set) {
                size_t length = strcspn(set, " ");
                if (length == n && strncmp(set, scope, n) == 0)
                        return true;
                set += length + (set[length] == ' ');
        }
        return false;
}

static int add_one(char *set, size_t size, const char *scope, size_t n)
{
        size_t used = strlen(set);

        for (size_t i = 0; i < n; i++)
                if (!is_scope(scope[i]))
                        return -EINVAL;
        if (has_one(set, scope, n))
                return 0;
        if (used + (used > 0) + n + 1 > size)
                return -EMSGSIZE;
        if (used > 0)
                set[used++] = ' ';
        memcpy(set + used, scope, n);
        set[used + n] = '\0';
        return 0;
}

int scope_add(char *set, size_t size, const char *more)
{
        size_t before = strlen(set);
        int r = 0;

        while (*more && r >= 0) {
                size_t n = strcspn(more, " ");
                if (n > 0)
                        r = add_one(set, size, more, n);
                more += n + (more[n] == ' ');
        }
        if (r < 0)
                set[before] = '\0';
        return r;
}
