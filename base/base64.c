/* Base64, strict. */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The four characters of three bytes. */
static void encode(uint32_t three, char to[4])
{
        to[0] = alphabet[three >> 18];
        to[1] = alphabet[three >> 12 & 63];
        to[2] = alphabet[three >> 6 & 63];
        to[3] = alphabet[three & 63];
}

int base64_append(struct buffer *to, const void *data, size_t n)
{
        const unsigned char *from = data;

        int r = buffer_reserve(to, (n + 2) / 3 * 4);
        if (r < 0 || n == 0)
                return r;
        char *at = buffer_tail(to);
        for (; n >= 3; n -= 3, from += 3, at += 4)
                encode((uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2], at);
        if (n > 0) {
                encode((uint32_t)from[0] << 16 | (n > 1 ? (uint32_t)from[1] << 8 : 0), at);
                at[3] = '=';
                if (n == 1)
                        at[2] = '=';
                at += 4;
        }
        buffer_produced(to, (size_t)(at - buffer_tail(to)));
        return 0;
}

/* The value of each character, 0 to 63. A table, because branches that depend on random characters are slow. */
enum { INVALID = 0x80 };
#define VALUE(c)                                                                                   \
        (uint8_t)((c) >= 'A' && (c) <= 'Z'   ? (c) - 'A'                                           \
                  : (c) >= 'a' && (c) <= 'z' ? (c) - 'a' + 26                                      \
                  : (c) >= '0' && (c) <= '9' ? (c) - '0' + 52                                      \
                  : (c) == '+'               ? 62                                                  \
                  : (c) == '/'               ? 63                                                  \
                                             : INVALID)
#define VALUES_4(c)  VALUE(c), VALUE((c) + 1), VALUE((c) + 2), VALUE((c) + 3)
#define VALUES_16(c) VALUES_4(c), VALUES_4((c) + 4), VALUES_4((c) + 8), VALUES_4((c) + 12)
#define VALUES_64(c) VALUES_16(c), VALUES_16((c) + 16), VALUES_16((c) + 32), VALUES_16((c) + 48)
static const uint8_t values[256] = {VALUES_64(0), VALUES_64(64), VALUES_64(128), VALUES_64(192)};

static uint8_t value_of(char c)
{
        return values[(unsigned char)c];
}

static size_t padding(const char *text, size_t n)
{
        return n == 0 || text[n - 1] != '=' ? 0 : (text[n - 2] == '=' ? 2 : 1);
}

bool base64_valid(const char *text, size_t n, size_t *bytes)
{
        uint8_t all = 0;

        if (n % 4 != 0)
                return false;
        size_t pad = padding(text, n);
        for (size_t i = 0; i < n - pad; i++)
                all |= value_of(text[i]);
        if (all & INVALID)
                return false;
        /* Bits that no byte takes are 0, so that a text has one meaning and bytes have one text. */
        if (pad > 0 && value_of(text[n - pad - 1]) & (pad == 2 ? 15 : 3))
                return false;
        if (bytes)
                *bytes = n / 4 * 3 - pad;
        return true;
}

/* The three bytes of four characters. */
static uint32_t decode(const char text[4])
{
        return (uint32_t)value_of(text[0]) << 18 | (uint32_t)value_of(text[1]) << 12 |
               (uint32_t)value_of(text[2]) << 6 | value_of(text[3]);
}

int base64_decode(struct buffer *to, const char *text, size_t n)
{
        size_t bytes, left;

        if (!base64_valid(text, n, &bytes))
                return -EBADMSG;
        int r = buffer_reserve(to, bytes);
        if (r < 0 || bytes == 0)
                return r;
        char *at = buffer_tail(to);
        for (left = bytes; left >= 3; left -= 3, text += 4, at += 3) {
                uint32_t three = decode(text);
                at[0] = (char)(three >> 16);
                at[1] = (char)(three >> 8);
                at[2] = (char)three;
        }
        if (left > 0) {
                const char last[4] = {text[0], text[1], left == 2 ? text[2] : 'A', 'A'};
                uint32_t three = decode(last);
                at[0] = (char)(three >> 16);
                if (left == 2)
                        at[1] = (char)(three >> 8);
        }
        buffer_produced(to, bytes);
        return 0;
}
