#include "policy/server-name.h"

#include <stdbool.h>
#include <stdint.h>

/* One character of valid UTF-8. Returns its bytes. */
static size_t decode(const char *text, size_t n, uint32_t *ret)
{
        const unsigned char *p = (const unsigned char *)text;
        size_t length = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        uint32_t c = length == 1 ? p[0] : p[0] & (0x7fu >> length);

        for (size_t i = 1; i < length && i < n; i++)
                c = c << 6 | (p[i] & 0x3f);
        *ret = c;
        return length < n ? length : n;
}

/* Characters that control a terminal, or make two names look like one: C0 and C1, zero-width, line separators,
 * direction marks. */
static bool is_invisible(uint32_t c)
{
        return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
               (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

const char *server_name_wrong(const char *name, size_t n)
{
        size_t characters = 0;

        if (n == 0)
                return "its name is empty";
        for (size_t i = 0; i < n; characters++) {
                uint32_t c;
                i += decode(name + i, n - i, &c);
                if (is_invisible(c))
                        return "its name has characters that cannot be seen";
        }
        return characters > SERVER_NAME_MAX ? "its name is longer than 64 characters" : NULL;
}

size_t server_name_cut(const char *name, size_t n)
{
        size_t i = 0;

        for (size_t characters = 0; i < n && characters < SERVER_NAME_MAX; characters++) {
                uint32_t c;
                i += decode(name + i, n - i, &c);
        }
        return i;
}
