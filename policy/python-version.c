/* Versions of Python as people name them. */
#include "policy/python-version.h"

#include <errno.h>
#include <string.h>

#include "base/printable.h"

enum { PATCH_MAX = 999 };

bool python_version_is_meant(const char *text)
{
        return text && text[0] >= '0' && text[0] <= '9' && !strchr(text, '/');
}

/* Reads a number without leading zeros. Returns what follows it, or NULL. */
static const char *number(const char *text, int most, int *ret)
{
        int n = 0;

        if (*text < '0' || *text > '9' || (text[0] == '0' && text[1] >= '0' && text[1] <= '9'))
                return NULL;
        for (; *text >= '0' && *text <= '9'; text++) {
                n = 10 * n + (*text - '0');
                if (n > most)
                        return NULL;
        }
        *ret = n;
        return text;
}

static int read_version(const char *text, struct python_version *ret)
{
        struct python_version version = {.patch = PYTHON_PATCH_ANY};

        if (strncmp(text, "3.", 2) != 0)
                return -EINVAL;
        text = number(text + 2, PYTHON_MINOR_MAX, &version.minor);
        if (text && *text == '.')
                text = number(text + 1, PATCH_MAX, &version.patch);
        if (!text || *text)
                return -EINVAL;
        *ret = version;
        return 0;
}

int python_version_parse(const char *text, struct python_version *ret, struct error *err)
{
        struct python_version version;
        char shown[64];

        if (read_version(text, &version) == 0 && version.minor >= PYTHON_MINOR_MIN) {
                *ret = version;
                return 0;
        }
        printable_escape(shown, sizeof(shown), text);
        return error_set(err, EINVAL, "python \"%s\": not " PYTHON_VERSION_TEXT, shown);
}

bool python_version_fits(const struct python_version *wanted, const char *found)
{
        struct python_version version;

        return read_version(found, &version) == 0 && version.minor == wanted->minor &&
               (wanted->patch == PYTHON_PATCH_ANY || version.patch == wanted->patch);
}

bool python_version_is_newer(const struct python_version *a, const struct python_version *b)
{
        return a->minor != b->minor ? a->minor > b->minor : a->patch > b->patch;
}
