/* A number is its sign, its digits without zeros at either end, and the power of ten of the first one. */
#include "policy/rules/decimal.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPONENT_MAX INT64_C(1000000000000000)

struct decimal {
        int sign;          /* of zero: 0 */
        const char *first; /* the first and the last digit that is not zero */
        const char *last;
        int64_t exponent; /* the value is 0.DDD * 10^exponent */
};

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* An exponent beyond the bound stands for the bound. */
static int64_t read_exponent(const char *p, const char *end)
{
        bool is_negative = p < end && *p == '-';
        int64_t value = 0;

        for (p += p < end && (*p == '-' || *p == '+'); p < end && is_digit(*p); p++)
                if (value < EXPONENT_MAX)
                        value = value * 10 + (*p - '0');
        return is_negative ? -value : value;
}

static struct decimal read_decimal(const char *p, size_t n)
{
        const char *end = p + n, *point = NULL, *q;
        bool is_negative = n > 0 && *p == '-';
        struct decimal d = {.sign = is_negative ? -1 : 1};

        for (q = p + is_negative; q < end && (is_digit(*q) || *q == '.'); q++) {
                if (*q == '.')
                        point = q;
                if (is_digit(*q) && *q != '0') {
                        d.first = d.first ? d.first : q;
                        d.last = q;
                }
        }
        if (!d.first)
                return (struct decimal){};
        if (!point)
                point = q;
        /* The digits before the point, or the zeros behind it. */
        d.exponent = d.first < point ? point - d.first : point + 1 - d.first;
        if (q < end)
                d.exponent += read_exponent(q + 1, end);
        return d;
}

static const char *next_digit(const char *p, const char *last)
{
        do
                p++;
        while (p <= last && *p == '.');
        return p;
}

int decimal_compare(const char *a, size_t n, const char *b, size_t m)
{
        struct decimal x = read_decimal(a, n), y = read_decimal(b, m);

        if (x.sign != y.sign || x.sign == 0)
                return x.sign - y.sign;
        if (x.exponent != y.exponent)
                return x.exponent < y.exponent ? -x.sign : x.sign;
        const char *p = x.first, *q = y.first;
        while (p <= x.last && q <= y.last && *p == *q) {
                p = next_digit(p, x.last);
                q = next_digit(q, y.last);
        }
        if (p > x.last || q > y.last)
                return (p <= x.last ? 1 : q <= y.last ? -1 : 0) * x.sign;
        return *p < *q ? -x.sign : x.sign;
}
