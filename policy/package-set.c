/* The packages that an image must have. */
#include "policy/package-set.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "policy/image.h"

static bool is_name(char c)
{
        return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* Whether a requirement begins after this comma, rather than another specifier or extra. */
static bool divides(const char *comma)
{
        const char *next = comma + 1 + strspn(comma + 1, " \t");
        return *next == '\0' || *next == ',' || isalnum((unsigned char)*next);
}

bool package_next(const char **list, const char **word, size_t *n)
{
        const char *p = *list + strspn(*list, " \t,");
        int depth = 0;
        char quote = '\0';

        if (*p == '\0')
                return false;
        *word = p;
        for (; *p; p++) {
                if (quote) {
                        quote = *p == quote ? '\0' : quote;
                        continue;
                }
                if (*p == '"' || *p == '\'')
                        quote = *p;
                depth += (*p == '[' || *p == '(') - (*p == ']' || *p == ')');
                if (*p == ',' && depth <= 0 && divides(p))
                        break;
        }
        *n = (size_t)(p - *word);
        while (*n > 0 && ((*word)[*n - 1] == ' ' || (*word)[*n - 1] == '\t'))
                (*n)--;
        *list = p;
        return true;
}

static int check_one(const char *word, size_t n, struct error *err)
{
        size_t name = 0;

        while (name < n && is_name(word[name]))
                name++;
        if (!isalnum((unsigned char)word[0]) || name > 128 ||
            !isalnum((unsigned char)word[name - 1]))
                return error_set(err, EINVAL, "\"%.*s\" is not the name of a package", (int)n,
                                 word);
        size_t next = name + strspn(word + name, " \t");
        if (next < n && !strchr("[<>=!~;(", word[next]))
                return error_set(
                        err, EINVAL,
                        "\"%.*s\" is not a requirement: write a name, [extras], a version as in 'name>=2'; sources and URLs are never built",
                        (int)n, word);
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)word[i] < 0x20 || (unsigned char)word[i] > 0x7e)
                        return error_set(err, EINVAL,
                                         "a requirement has only printable ASCII characters");
        return 0;
}

int package_check(const char *list, struct error *err)
{
        const char *word = NULL;
        size_t n = 0, count = 0;

        for (; package_next(&list, &word, &n); count++) {
                int r = check_one(word, n, err);
                if (r < 0)
                        return r;
        }
        return count > 0 ? 0 : error_set(err, EINVAL, "no package is named");
}

/* ---- packages of npm ---- */

enum { NPM_NAME_MAX = 214, NPM_VERSIONS_MAX = 128 };

bool npm_next(const char **list, const char **word, size_t *n)
{
        const char *p = *list + strspn(*list, " \t,");

        if (*p == '\0')
                return false;
        *word = p;
        *n = strcspn(p, ",");
        *list = p + *n;
        while (*n > 0 && ((*word)[*n - 1] == ' ' || (*word)[*n - 1] == '\t'))
                (*n)--;
        return true;
}

static bool is_in(char c, const char *others)
{
        return isalnum((unsigned char)c) || (c != '\0' && strchr(others, c));
}

/* Length of a name without its scope; 0: it is not one. */
static size_t npm_part(const char *word, size_t n)
{
        size_t length = 0;

        if (n == 0 || !is_in(word[0], "-~"))
                return 0;
        while (length < n && is_in(word[length], "-~._"))
                length++;
        return length;
}

static size_t npm_name(const char *word, size_t n)
{
        if (n == 0 || word[0] != '@')
                return npm_part(word, n);
        size_t scope = npm_part(word + 1, n - 1);
        if (scope == 0 || scope + 2 >= n || word[scope + 1] != '/')
                return 0;
        size_t name = npm_part(word + scope + 2, n - scope - 2);
        return name > 0 ? scope + 2 + name : 0;
}

static bool ends_with(const char *word, size_t n, const char *end)
{
        size_t length = strlen(end);

        return n >= length && strncasecmp(word + n - length, end, length) == 0;
}

/* rootfs/npm.py checks the same again. */
static bool npm_valid(const char *word, size_t n)
{
        size_t name = npm_name(word, n);

        if (name == 0 || name > NPM_NAME_MAX ||
            (name == 12 && memcmp(word, "node_modules", 12) == 0))
                return false;
        if (name == n)
                return true;
        const char *versions = word + name + 1;
        size_t length = n - name - 1;
        if (word[name] != '@' || length == 0 || length > NPM_VERSIONS_MAX || versions[0] == '.' ||
            ends_with(versions, length, ".tgz") || ends_with(versions, length, ".tar") ||
            ends_with(versions, length, ".tar.gz"))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!is_in(versions[i], ".*^~<>=|+ -"))
                        return false;
        return true;
}

int npm_check(const char *list, struct error *err)
{
        const char *word = NULL;
        size_t n = 0, count = 0;

        for (; npm_next(&list, &word, &n); count++)
                if (!npm_valid(word, n))
                        return error_set(
                                err, EINVAL,
                                "\"%.*s\" is not a package of npm: write a name, or a name with versions as in 'lodash@^4'; files, addresses and repositories are not fetched",
                                (int)(n > 100 ? 100 : n), word);
        return count > 0 ? 0 : error_set(err, EINVAL, "no package is named");
}

/* ---- the key ---- */

/* Ignores spaces, and in names case and the difference between -, _ and . (PEP 503). */
static uint64_t key_of(const char *word, size_t n)
{
        uint64_t hash = IMAGE_HASH_START;
        bool name = true;

        for (size_t i = 0; i < n; i++) {
                char c = word[i];
                if (c == ' ' || c == '\t')
                        continue;
                name = name && is_name(c);
                if (name)
                        c = c == '_' || c == '.' ? '-' : (char)tolower((unsigned char)c);
                hash = image_hash(hash, &c, 1);
        }
        return hash;
}

/* FNV hashes of similar words are similar, so they are mixed before they are added. A sum does not
 * depend on the order of the words. */
static uint64_t scatter(uint64_t key)
{
        key = (key ^ key >> 33) * 0xff51afd7ed558ccdU;
        key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53U;
        return key ^ key >> 33;
}

uint64_t package_set_key(const struct package_set *set, const char *base)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < set->n_with; i++) {
                const char *list = set->with[i], *word = NULL;
                size_t n = 0;
                while (package_next(&list, &word, &n))
                        sum += scatter(key_of(word, n));
        }
        for (size_t i = 0; i < set->n_npm; i++) {
                const char *list = set->npm[i], *word = NULL;
                size_t n = 0;
                while (npm_next(&list, &word, &n))
                        sum += scatter(image_hash(image_hash(IMAGE_HASH_START, "npm", 4), word, n));
        }
        if (set->files_key)
                sum += scatter(
                        image_hash(IMAGE_HASH_START, set->files_key, strlen(set->files_key)));
        return image_hash(image_hash(IMAGE_HASH_START, base, strlen(base)), &sum, sizeof(sum));
}
