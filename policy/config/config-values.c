/* The values of a config's keys: types, ranges and error messages. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/config/config-internal.h"
#include "policy/image.h"
#include "policy/quantity.h"

enum { SECOND = 1000, USER_NAME_MAX = 32 };

static const char *const kind_meaning[] = {
        [CONFIG_BYTES] = "a size such as \"512M\" or a number of bytes",
        [CONFIG_COUNT] = "a whole number",
        [CONFIG_TIME] = "a number of seconds or a string such as \"30s\" or \"5m\"",
        [CONFIG_CORES] = "a number of cores such as 0.5",
        [CONFIG_IMAGE] = "an image's name: letters, digits, _ . - (at most 64)",
        [CONFIG_PATH] = "an absolute path",
        [CONFIG_USER] = "a user's name",
};

static int number_of(const struct config_key *key, yyjson_val *value, uint64_t *ret)
{
        uint32_t small = 0;
        int64_t whole = 0;
        int r;

        switch (key->kind) {
        case CONFIG_BYTES:
                return quantity_bytes(value, ret);
        case CONFIG_COUNT:
                r = json_int64(value, &whole);
                *ret = whole < 0 ? 0 : (uint64_t)whole;
                return r < 0 ? r : whole < 0 ? -ERANGE : 0;
        case CONFIG_TIME:
                r = quantity_milliseconds(value, &small);
                break;
        default:
                r = quantity_thousandths(value, &small);
                break;
        }
        *ret = small;
        return r;
}

static void print_bytes(char *to, size_t n, uint64_t bytes)
{
        static const char units[] = "KMGT";
        size_t unit = 0;

        for (bytes /= 1024; bytes % 1024 == 0 && unit < sizeof(units) - 2; unit++)
                bytes /= 1024;
        snprintf(to, n, "%llu%c", (unsigned long long)bytes, units[unit]);
}

static void print_bound(char *to, size_t n, enum config_kind kind, uint64_t v)
{
        switch (kind) {
        case CONFIG_BYTES:
                print_bytes(to, n, v);
                return;
        case CONFIG_TIME:
                snprintf(to, n, "%g s", (double)v / SECOND);
                return;
        case CONFIG_CORES:
                snprintf(to, n, "%g", (double)v / 1000);
                return;
        default:
                snprintf(to, n, "%llu", (unsigned long long)v);
        }
}

static int read_number(struct config_reader *reader, const struct config_key *key,
                       const char *where, yyjson_val *value, void *into)
{
        char least[32], most[32];
        uint64_t v = 0;
        void *to = (char *)into + key->offset;

        int r = number_of(key, value, &v);
        if (r == -EINVAL)
                return config_wrong(reader, value, "%s%s must be %s", where, key->name,
                                    kind_meaning[key->kind]);
        if (r < 0 || v < key->least || v > key->most) {
                print_bound(least, sizeof(least), key->kind, key->least);
                print_bound(most, sizeof(most), key->kind, key->most);
                return config_wrong(reader, value, "%s%s must be from %s to %s", where, key->name,
                                    least, most);
        }
        if (key->kind == CONFIG_BYTES)
                *(uint64_t *)to = v;
        else
                *(uint32_t *)to = (uint32_t)v;
        return 0;
}

static bool is_user_name(const char *text)
{
        size_t n = strlen(text);
        return n > 0 && n <= USER_NAME_MAX && text[0] != '-' &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$") ==
                       n;
}

static int read_text(struct config_reader *reader, const struct config_key *key, const char *where,
                     yyjson_val *value, void *into)
{
        const char *text = config_text(value);
        bool good = text != NULL;

        if (good && key->kind == CONFIG_IMAGE)
                good = image_name_valid(text);
        else if (good && key->kind == CONFIG_PATH)
                good = text[0] == '/';
        else if (good)
                good = is_user_name(text);
        if (!good)
                return config_wrong(reader, value, "%s%s must be %s", where, key->name,
                                    kind_meaning[key->kind]);
        if (config_set_text((char **)((char *)into + key->offset), text) < 0)
                return config_no_memory(reader);
        return 0;
}

int config_read_value(struct config_reader *reader, const struct config_key *key, const char *where,
                      yyjson_val *value, void *into)
{
        if (key->kind >= CONFIG_IMAGE)
                return read_text(reader, key, where, value, into);
        return read_number(reader, key, where, value, into);
}
