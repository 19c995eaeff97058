#include "base/percent.h"

static int digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

void percent_append(struct buffer *to, const char *text, const char *set, bool others)
{
        for (; *text; text++) {
                if ((strchr(set, *text) != NULL) == others)
                        buffer_append(to, text, 1);
                else
                        buffer_printf(to, "%%%02X", (unsigned char)*text);
        }
}

size_t percent_next(const char *text, size_t n, char *ret)
{
        int high = n > 2 ? digit(text[1]) : -1, low = n > 2 ? digit(text[2]) : -1;

        *ret = *text;
        if (*text != '%')
                return 1;
        *ret = (char)(high * 16 + low);
        return high < 0 || low < 0 ? 0 : 3;
}
