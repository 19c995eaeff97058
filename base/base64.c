/* Base64, strict. */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_append(struct buffer *to, const void *data, size_t n)
{
        const unsigned char *from = data;

        int r = buffer_reserve(to, (n + 2) / 3 * 4);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i += 3) {
                size_t left = n - i;
                uint32_t three = (uint32_t)from[i] << 16 |
                                 (uint32_t)(left > 1 ? from[i + 1] : 0) << 8 |
                                 (left > 2 ? from[i + 2] : 0);
                char *at = buffer_tail(to);
                at[0] = alphabet[three >> 18];
                at[1] = alphabet[three >> 12 & 63];
                at[2] = left > 1 ? alphabet[three >> 6 & 63] : '=';
                at[3] = left > 2 ? alphabet[three & 63] : '=';
                buffer_produced(to, 4);
        }
        return 0;
}

/* 0 to 63, or -1. */
static int value_of(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : (c == '/' ? 63 : -1);
}

static size_t padding(const char *text, size_t n)
{
        return n == 0 || text[n - 1] != '=' ? 0 : (text[n - 2] == '=' ? 2 : 1);
}

bool base64_valid(const char *text, size_t n, size_t *bytes)
{
        if (n % 4 != 0)
                return false;
        size_t pad = padding(text, n);
        for (size_t i = 0; i < n - pad; i++) {
                if (value_of(text[i]) < 0)
                        return false;
        }
        /* Bits that no byte takes are 0, so that a text has one meaning and bytes have one text. */
        if (pad > 0 && value_of(text[n - pad - 1]) & (pad == 2 ? 15 : 3))
                return false;
        if (bytes)
                *bytes = n / 4 * 3 - pad;
        return true;
}

int base64_decode(struct buffer *to, const char *text, size_t n)
{
        size_t bytes;

        if (!base64_valid(text, n, &bytes))
                return -EBADMSG;
        int r = buffer_reserve(to, bytes);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i += 4) {
                uint32_t three = 0;
                for (size_t k = 0; k < 4; k++)
                        three = three << 6 |
                                (text[i + k] == '=' ? 0 : (uint32_t)value_of(text[i + k]));
                size_t count = bytes < 3 ? bytes : 3;
                char *at = buffer_tail(to);
                for (size_t k = 0; k < count; k++)
                        at[k] = (char)(three >> (16 - 8 * k) & 0xff);
                buffer_produced(to, count);
                bytes -= count;
        }
        return 0;
}
