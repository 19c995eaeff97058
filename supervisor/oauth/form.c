#include "supervisor/oauth/form.h"

#include <stdbool.h>

static bool is_plain(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_' || c == '~';
}

int form_encode(struct buffer *to, const char *text)
{
        static const char digits[] = "0123456789ABCDEF";
        int r = 0;

        for (; *text && r >= 0; text++) {
                unsigned char c = (unsigned char)*text;
                const char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
                r = is_plain(*text) ? buffer_append(to, text, 1)
                                    : buffer_append(to, escaped, sizeof(escaped));
        }
        return r;
}

int form_add(struct buffer *to, size_t from, const char *name, const char *value)
{
        if (*value == '\0')
                return 0;
        int r = to->length > from ? buffer_append_text(to, "&") : 0;
        if (r >= 0)
                r = form_encode(to, name);
        if (r >= 0)
                r = buffer_append_text(to, "=");
        return r < 0 ? r : form_encode(to, value);
}
