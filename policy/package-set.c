/* The packages that an image must have. */
#include "policy/package-set.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

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
        if (set->files_key)
                sum += scatter(
                        image_hash(IMAGE_HASH_START, set->files_key, strlen(set->files_key)));
        return image_hash(image_hash(IMAGE_HASH_START, base, strlen(base)), &sum, sizeof(sum));
}
