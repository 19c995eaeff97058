#include "policy/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

struct unit {
        const char *name;
        double times;
};

static const double bytes_max = 0x1p60;

static const struct unit byte_units[] = {
        {"", 1},         {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10},  {"kib", 0x1p10},
        {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},
        {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40}, {NULL, 0},
};

static const struct unit time_units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}, {NULL, 0},
};

/* Digits with at most one point; signs and exponents are not accepted. */
static bool is_plain_number(const char *text, size_t n)
{
        size_t digits = 0, points = 0;

        for (size_t i = 0; i < n; i++) {
                if (isdigit((unsigned char)text[i]))
                        digits++;
                else if (text[i] == '.')
                        points++;
                else
                        return false;
        }
        return digits > 0 && points <= 1 && n < 32;
}

static int from_text(const char *text, const struct unit *units, double *ret)
{
        size_t n = strspn(text, "0123456789.");
        const char *unit = text + n + strspn(text + n, " ");

        if (!is_plain_number(text, n))
                return -EINVAL;
        for (; units->name; units++)
                if (strcasecmp(units->name, unit) == 0) {
                        *ret = strtod(text, NULL) * units->times;
                        return 0;
                }
        return -EINVAL;
}

/* A JSON number has the unit "". */
static int read_quantity(yyjson_val *value, const struct unit *units, double *ret)
{
        size_t length = 0;

        if (yyjson_is_str(value)) {
                const char *text = yyjson_get_str(value);
                length = yyjson_get_len(value);
                return strlen(text) == length ? from_text(text, units, ret) : -EINVAL;
        }
        double d = 0;
        int r = json_double(value, &d);
        if (r < 0)
                return r;
        *ret = d * units[0].times;
        return 0;
}

int quantity_bytes(yyjson_val *value, uint64_t *ret)
{
        double d = 0;
        int r = read_quantity(value, byte_units, &d);

        if (r < 0)
                return r;
        if (!(d >= 0 && d <= bytes_max))
                return -ERANGE;
        if (json_is_number(value) && d != floor(d))
                return -EINVAL;
        *ret = (uint64_t)d;
        return 0;
}

int quantity_bytes_of(const char *text, uint64_t *ret)
{
        double d = 0;
        int r = from_text(text, byte_units, &d);

        if (r >= 0 && d > bytes_max)
                return -ERANGE;
        *ret = (uint64_t)d;
        return r;
}

static int to_u32(double d, uint32_t *ret)
{
        if (!(d >= 0 && d <= UINT32_MAX))
                return -ERANGE;
        *ret = (uint32_t)(d + 0.5 > UINT32_MAX ? UINT32_MAX : d + 0.5);
        return 0;
}

int quantity_milliseconds(yyjson_val *value, uint32_t *ret)
{
        double d = 0;
        int r = read_quantity(value, time_units, &d);

        return r < 0 ? r : to_u32(d, ret);
}

int quantity_milliseconds_of(const char *text, uint32_t *ret)
{
        double d = 0;
        int r = from_text(text, time_units, &d);

        return r < 0 ? r : to_u32(d, ret);
}

int quantity_thousandths(yyjson_val *value, uint32_t *ret)
{
        double d = 0;
        int r = json_double(value, &d);

        return r < 0 ? r : to_u32(d * 1000, ret);
}
