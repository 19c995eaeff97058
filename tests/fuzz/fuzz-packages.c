/* A list of requirements, from the command line or a script's metadata: accepted when each is a
 * package's name with its specifiers. */
#include "policy/package-set.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"

/* The words lie within the list, in order. None can be an option, a path or a URL. */
static void check_words(const char *list, bool good)
{
        const char *rest = list, *word = NULL, *before = list, *end = list + strlen(list);
        size_t n = 0;

        while (package_next(&rest, &word, &n)) {
                assert(word >= before && n <= (size_t)(end - word));
                assert(rest >= word + n && rest <= end);
                assert(!good || (n > 0 && isalnum((unsigned char)word[0])));
                before = rest;
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_free_ char *list = strndup((const char *)data, n);
        struct package_set set = {.with = {list}, .n_with = 1, .npm = {list}, .n_npm = 1};
        struct error err = {};

        assert(list);
        bool good = npm_check(list, &err) >= 0;
        assert(good || error_is_set(&err));
        assert(!good || !strpbrk(list, ":;$`'\"()\\\n"));
        err = (struct error){};
        good = package_check(list, &err) >= 0;
        assert(good || error_is_set(&err));
        check_words(list, good);
        assert(package_set_key(&set, "host") == package_set_key(&set, "host"));
        return good;
}

FUZZ_TARGET
