/* Finds secrets in text. */
#include "base/mask.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

static char *secrets[MASK_SECRETS_MAX];
static size_t n_secrets;

static const char stars[] = "***";

enum { STARS = sizeof(stars) - 1 };

static const struct {
        const char *text;
        size_t min; /* number of characters after the prefix */
} prefixes[] = {
        {"sk-", 16},   {"sk_live_", 16}, {"rk_live_", 16}, {"ghp_", 20},        {"gho_", 20},
        {"ghu_", 20},  {"ghs_", 20},     {"ghr_", 20},     {"github_pat_", 20}, {"glpat-", 16},
        {"xoxb-", 16}, {"xoxp-", 16},    {"xoxa-", 16},    {"xapp-", 16},       {"AKIA", 16},
        {"ASIA", 16},  {"AIza", 30},     {"npm_", 20},     {"pypi-", 20},       {"hf_", 20},
        {"eyJ", 40},
};

static const char *const secret_words[] = {
        "token",  "secret",        "password",   "passwd",      "pwd",
        "apikey", "authorization", "credential", "credentials", "cookie",
};

/* Words that make a following "key" a secret. */
static const char *const key_words[] = {
        "api", "access", "private", "secret", "signing", "encryption", "master", "auth", "service",
};

static bool is_token(char c)
{
        return isalnum((unsigned char)c) || strchr("-_.~+/=", c) != NULL;
}

static size_t token_length(const char *text)
{
        size_t n = 0;

        while (text[n] && is_token(text[n]))
                n++;
        return n;
}

void mask_add(const char *secret)
{
        if (n_secrets == MASK_SECRETS_MAX || strlen(secret) < MASK_LENGTH_MIN)
                return;
        for (size_t i = 0; i < n_secrets; i++)
                if (strcmp(secrets[i], secret) == 0)
                        return;
        char *copy = strdup(secret);
        if (copy)
                secrets[n_secrets++] = copy;
}

void mask_drop(const char *secret)
{
        for (size_t i = 0; secret && i < n_secrets; i++) {
                if (strcmp(secrets[i], secret) != 0)
                        continue;
                free(secrets[i]);
                secrets[i] = secrets[--n_secrets];
                return;
        }
}

/* Replaces n characters by stars. Returns how many stars. */
static size_t put_stars(char *at, size_t n)
{
        memmove(at + STARS, at + n, strlen(at + n) + 1);
        memcpy(at, stars, STARS);
        return STARS;
}

static size_t prefixed(const char *text)
{
        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
                if (*text != *prefixes[i].text)
                        continue;
                size_t n = strlen(prefixes[i].text);
                if (strncmp(text, prefixes[i].text, n) == 0 &&
                    token_length(text + n) >= prefixes[i].min)
                        return n + token_length(text + n);
        }
        return 0;
}

static size_t literal(const char *text)
{
        size_t longest = 0;

        for (size_t i = 0; i < n_secrets; i++) {
                size_t n = strlen(secrets[i]);
                if (n > longest && strncmp(text, secrets[i], n) == 0)
                        longest = n;
        }
        return longest;
}

static bool is_one_of(const char *word, const char *const *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(word, list[i]) == 0)
                        return true;
        return false;
}

/* Reads the next word of a name, converted to lower case. A word ends at any character that is not
 * a letter, and where a capital follows a lower-case letter. Returns the rest of the name. */
static const char *next_word(const char *name, char word[32])
{
        size_t n = 0;

        while (*name && !isalpha((unsigned char)*name))
                name++;
        for (const char *first = name; isalpha((unsigned char)*name); name++) {
                if (name > first && isupper((unsigned char)*name) &&
                    islower((unsigned char)name[-1]))
                        break;
                if (n < 31)
                        word[n++] = (char)tolower((unsigned char)*name);
        }
        word[n] = '\0';
        return name;
}

bool mask_name_is_secret(const char *name)
{
        char words[2][32] = {};

        for (int i = 0; *name; i ^= 1) {
                name = next_word(name, words[i]);
                if (is_one_of(words[i], secret_words, ARRAY_SIZE(secret_words)))
                        return true;
                if (strcmp(words[i], "key") == 0 &&
                    is_one_of(words[i ^ 1], key_words, ARRAY_SIZE(key_words)))
                        return true;
        }
        return false;
}

bool mask_value_is_secret(const char *value)
{
        bool digit = false, upper = false, lower = false;
        size_t n = strlen(value);

        if (prefixed(value) == n && n > 0)
                return true;
        if (n < 24 || token_length(value) != n || strchr(value, '/') || strchr(value, '.'))
                return false;
        for (const char *c = value; *c; c++) {
                digit = digit || isdigit((unsigned char)*c);
                upper = upper || isupper((unsigned char)*c);
                lower = lower || islower((unsigned char)*c);
        }
        return digit && (upper || lower);
}

/* The name before an assignment at text[at]. A colon is an assignment only after a name that does
 * not occur in prose: "api-key: x", {"token": "x"}, but not "unexpected token: x". */
static bool assigned_to_secret(const char *text, size_t at)
{
        char name[64];
        size_t from = at;

        while (from > 0 && (text[from - 1] == '"' || text[from - 1] == '\''))
                from--;
        size_t end = from;
        while (from > 0 && (isalnum((unsigned char)text[from - 1]) || text[from - 1] == '_' ||
                            text[from - 1] == '-'))
                from--;
        if (from == end || end - from >= sizeof(name))
                return false;
        memcpy(name, text + from, end - from);
        name[end - from] = '\0';
        if (text[at] == ':' && end == at && !strpbrk(name, "_-") &&
            strcasecmp(name, "authorization") != 0)
                return false;
        return mask_name_is_secret(name);
}

/* The value after the name; *skip is its offset from text[at]. */
static size_t assigned(const char *text, size_t at, size_t *skip)
{
        const char *value = text + at + 1;

        if ((text[at] != '=' && text[at] != ':') || !assigned_to_secret(text, at))
                return 0;
        value += strspn(value, " \"'");
        if (strncasecmp(value, "Bearer ", 7) == 0 || strncasecmp(value, "Basic ", 6) == 0)
                value = strchr(value, ' ') + 1;
        *skip = (size_t)(value - (text + at));
        size_t n = token_length(value);
        return n >= MASK_LENGTH_MIN ? n : 0;
}

static size_t bearer(const char *text, size_t *skip)
{
        if (strncasecmp(text, "bearer ", 7) != 0)
                return 0;
        *skip = 7;
        size_t n = token_length(text + 7);
        return n >= 16 ? n : 0;
}

void mask_text(char *text)
{
        for (size_t at = 0; text[at];) {
                bool begins = at == 0 || !isalnum((unsigned char)text[at - 1]);
                size_t skip = 0, n = literal(text + at);

                if (n == 0 && begins)
                        n = prefixed(text + at);
                if (n == 0 && begins)
                        n = bearer(text + at, &skip);
                if (n == 0)
                        n = assigned(text, at, &skip);
                at += n > 0 ? skip + put_stars(text + at + skip, n) : 1;
        }
}
