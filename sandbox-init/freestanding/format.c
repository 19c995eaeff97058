/* Formatted text without libc. */
#include "sandbox-init/freestanding/format.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct output {
        char *text;
        size_t size, length;
};

struct conversion {
        bool zeros, left;
        size_t width;
        int precision; /* -1: none */
        int length;    /* -2 hh, -1 h, 0, 1 l, 2 ll; z and j are l */
};

static void put(struct output *o, char c)
{
        if (o->length + 1 < o->size)
                o->text[o->length] = c;
        o->length++;
}

static void put_many(struct output *o, char c, size_t n)
{
        while (n-- > 0)
                put(o, c);
}

static void put_padded(struct output *o, const struct conversion *c, const char *text, size_t n)
{
        size_t padding = c->width > n ? c->width - n : 0;

        if (!c->left)
                put_many(o, ' ', padding);
        for (size_t i = 0; i < n; i++)
                put(o, text[i]);
        if (c->left)
                put_many(o, ' ', padding);
}

static void put_string(struct output *o, const struct conversion *c, const char *text)
{
        size_t n = 0, most = c->precision < 0 ? SIZE_MAX : (size_t)c->precision;

        if (!text)
                text = "(null)";
        while (n < most && text[n])
                n++;
        put_padded(o, c, text, n);
}

static void put_number(struct output *o, const struct conversion *c, uint64_t value, unsigned base,
                       const char *prefix)
{
        char digits[64];
        size_t n = 0, zeros = 0, sign = strlen(prefix);

        for (; value > 0; value /= base)
                digits[n++] = "0123456789abcdef"[value % base];
        size_t least = c->precision < 0 ? 1 : (size_t)c->precision;
        if (least > n)
                zeros = least - n;
        if (c->zeros && !c->left && c->precision < 0 && c->width > sign + n + zeros)
                zeros = c->width - sign - n;

        size_t padding = c->width > sign + zeros + n ? c->width - sign - zeros - n : 0;
        put_many(o, ' ', c->left ? 0 : padding);
        while (*prefix)
                put(o, *prefix++);
        put_many(o, '0', zeros);
        while (n > 0)
                put(o, digits[--n]);
        put_many(o, ' ', c->left ? padding : 0);
}

static size_t take_count(const char **p, va_list *args)
{
        size_t n = 0;

        if (**p == '*') {
                (*p)++;
                int given = va_arg(*args, int);
                return given > 0 ? (size_t)given : 0;
        }
        for (; **p >= '0' && **p <= '9'; (*p)++)
                if (n < 4096)
                        n = n * 10 + (size_t)(**p - '0');
        return n;
}

static const char *take_conversion(const char *p, struct conversion *ret, va_list *args)
{
        struct conversion c = {.precision = -1};

        for (; *p == '0' || *p == '-'; p++) {
                c.zeros |= *p == '0';
                c.left |= *p == '-';
        }
        c.width = take_count(&p, args);
        if (*p == '.') {
                p++;
                c.precision = (int)take_count(&p, args);
        }
        for (; *p == 'h'; p++)
                c.length--;
        for (; *p == 'l' || *p == 'z' || *p == 'j'; p++)
                c.length++;
        *ret = c;
        return p;
}

static int64_t take_signed(const struct conversion *c, va_list *args)
{
        if (c->length > 0)
                return va_arg(*args, long);
        int value = va_arg(*args, int);
        return c->length == -2 ? (signed char)value : c->length == -1 ? (short)value : value;
}

static uint64_t take_unsigned(const struct conversion *c, va_list *args)
{
        if (c->length > 0)
                return va_arg(*args, unsigned long);
        unsigned value = va_arg(*args, unsigned);
        return c->length == -2   ? (unsigned char)value
               : c->length == -1 ? (unsigned short)value
                                 : value;
}

static int convert(struct output *o, const struct conversion *c, char kind, va_list *args)
{
        switch (kind) {
        case 'd':
        case 'i': {
                int64_t value = take_signed(c, args);
                put_number(o, c, value < 0 ? -(uint64_t)value : (uint64_t)value, 10,
                           value < 0 ? "-" : "");
                return 0;
        }
        case 'u':
                put_number(o, c, take_unsigned(c, args), 10, "");
                return 0;
        case 'x':
                put_number(o, c, take_unsigned(c, args), 16, "");
                return 0;
        case 'o':
                put_number(o, c, take_unsigned(c, args), 8, "");
                return 0;
        case 'p':
                put_number(o, c, (uintptr_t)va_arg(*args, void *), 16, "0x");
                return 0;
        case 'c': {
                char byte = (char)va_arg(*args, int);
                put_padded(o, c, &byte, 1);
                return 0;
        }
        case 's':
                put_string(o, c, va_arg(*args, const char *));
                return 0;
        case '%':
                put(o, '%');
                return 0;
        default:
                return -1;
        }
}

int format_text(char *text, size_t size, const char *format, va_list args)
{
        struct output o = {.text = text, .size = size};
        va_list rest;
        int r = 0;

        va_copy(rest, args);
        for (const char *p = format; *p && r >= 0; p++) {
                struct conversion c;
                if (*p != '%') {
                        put(&o, *p);
                        continue;
                }
                p = take_conversion(p + 1, &c, &rest);
                r = convert(&o, &c, *p, &rest);
        }
        va_end(rest);
        if (size > 0)
                text[o.length < size ? o.length : size - 1] = '\0';
        if (r < 0 || o.length > INT_MAX)
                return -1;
        return (int)o.length;
}
