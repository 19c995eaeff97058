/* The keys of a config that are Cloister's own. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config-parts.h"
#include "policy/image.h"
#include "policy/quantity.h"

enum kind { KIND_BYTES, KIND_COUNT, KIND_TIME, KIND_CORES, KIND_IMAGE, KIND_PATH, KIND_USER };

/* A key with a value of one kind, and where it goes. */
struct key {
        const char *name;
        enum kind kind;
        size_t offset; /* in struct config */
        uint64_t least, most;
};

#define MIB (1024ull * 1024)
#define TIB (1024ull * 1024 * MIB)

enum {
        SECOND = 1000,
        HOUR = 3600 * SECOND,
        DAY = 24 * HOUR,
        USER_NAME_MAX = 32,
};

#define AT(field) offsetof(struct config, field)

static const struct key limit_keys[] = {
        {"memory", KIND_BYTES, AT(limits.memory), 64 * MIB, 64 * TIB},
        {"pids", KIND_COUNT, AT(limits.pids), 8, 4 * MIB},
        {"cpu", KIND_CORES, AT(limits.cpu_milli), 10, 1024 * 1000},
        {"tmp", KIND_BYTES, AT(limits.tmp), 64 * 1024, 64 * TIB},
        {"workspace", KIND_BYTES, AT(limits.workspace), 64 * 1024, 64 * TIB},
        {"shm", KIND_BYTES, AT(limits.shm), 64 * 1024, 64 * TIB},
};

static const struct key keys[] = {
        {"timeout", KIND_TIME, AT(cell_timeout_ms), 100, DAY},
        {"timeout_max", KIND_TIME, AT(cell_timeout_max_ms), 100, DAY},
        {"idle", KIND_TIME, AT(session_idle_ms), SECOND, 30u * DAY},
        {"sessions", KIND_COUNT, AT(sessions_max), 1, 4096},
        {"output", KIND_COUNT, AT(output_characters), 100, 10 * MIB},
        {"image", KIND_IMAGE, AT(image), 0, 0},
        {"python", KIND_PATH, AT(python), 0, 0},
        {"user", KIND_USER, AT(user), 0, 0},
};

static const char *const limit_names[] = {"memory", "pids", "cpu", "tmp", "workspace", "shm", NULL};
static_assert(ARRAY_SIZE(limit_names) == ARRAY_SIZE(limit_keys) + 1, "one name per key");

static const char *const root_names[] = {
        "mcpServers", "limits", "timeout", "timeout_max", "idle",     "sessions",
        "output",     "image",  "python",  "user",        "id_range", NULL,
};
static_assert(ARRAY_SIZE(root_names) == ARRAY_SIZE(keys) + 4, "and mcpServers, limits, id_range");

static const char *const kind_meaning[] = {
        [KIND_BYTES] = "a size such as \"512M\" or a number of bytes",
        [KIND_COUNT] = "a whole number",
        [KIND_TIME] = "a number of seconds or a string such as \"30s\" or \"5m\"",
        [KIND_CORES] = "a number of cores such as 0.5",
        [KIND_IMAGE] = "an image's name: letters, digits, _ . - (at most 64)",
        [KIND_PATH] = "an absolute path",
        [KIND_USER] = "a user's name",
};

static int number_of(const struct key *key, yyjson_val *value, uint64_t *ret)
{
        uint32_t small = 0;
        int64_t whole = 0;
        int r;

        switch (key->kind) {
        case KIND_BYTES:
                return quantity_bytes(value, ret);
        case KIND_COUNT:
                r = json_int64(value, &whole);
                *ret = whole < 0 ? 0 : (uint64_t)whole;
                return r < 0 ? r : whole < 0 ? -ERANGE : 0;
        case KIND_TIME:
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

static void print_bound(char *to, size_t n, enum kind kind, uint64_t v)
{
        switch (kind) {
        case KIND_BYTES:
                print_bytes(to, n, v);
                return;
        case KIND_TIME:
                snprintf(to, n, "%g s", (double)v / SECOND);
                return;
        case KIND_CORES:
                snprintf(to, n, "%g", (double)v / 1000);
                return;
        default:
                snprintf(to, n, "%llu", (unsigned long long)v);
        }
}

static int read_number(struct config_reader *reader, const struct key *key, const char *where,
                       yyjson_val *value)
{
        char least[32], most[32];
        uint64_t v = 0;
        void *to = (char *)reader->into + key->offset;

        int r = number_of(key, value, &v);
        if (r == -EINVAL)
                return config_wrong(reader, key->name, "%s%s must be %s", where, key->name,
                                    kind_meaning[key->kind]);
        if (r < 0 || v < key->least || v > key->most) {
                print_bound(least, sizeof(least), key->kind, key->least);
                print_bound(most, sizeof(most), key->kind, key->most);
                return config_wrong(reader, key->name, "%s%s must be from %s to %s", where,
                                    key->name, least, most);
        }
        if (key->kind == KIND_BYTES)
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

static int read_text(struct config_reader *reader, const struct key *key, yyjson_val *value)
{
        const char *text = config_text(value);
        bool good = text != NULL;

        if (good && key->kind == KIND_IMAGE)
                good = image_name_valid(text);
        else if (good && key->kind == KIND_PATH)
                good = text[0] == '/';
        else if (good)
                good = is_user_name(text);
        if (!good)
                return config_wrong(reader, key->name, "%s must be %s", key->name,
                                    kind_meaning[key->kind]);
        if (config_set_text((char **)((char *)reader->into + key->offset), text) < 0)
                return error_errno(reader->err, ENOMEM, "%s", reader->file);
        return 0;
}

static int read_key(struct config_reader *reader, const struct key *key, const char *where,
                    yyjson_val *value)
{
        if (key->kind >= KIND_IMAGE)
                return read_text(reader, key, value);
        return read_number(reader, key, where, value);
}

static const struct key *find_key(const struct key *list, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(list[i].name, name) == 0)
                        return &list[i];
        return NULL;
}

static int read_limits(struct config_reader *reader, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;

        if (!yyjson_is_obj(object))
                return config_wrong(reader, "limits", "limits must be an object");
        while ((name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                const struct key *key = find_key(limit_keys, ARRAY_SIZE(limit_keys), text);
                int r = config_check_twice(reader, "limits: ", object, name);
                if (r >= 0)
                        r = key ? read_key(reader, key, "limits.", yyjson_obj_iter_get_val(name))
                                : config_warn_unknown(reader, "limits: ", text, limit_names);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_id_range(struct config_reader *reader, yyjson_val *value)
{
        int64_t first = 0, count = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) != 2 ||
            json_int64(yyjson_arr_get_first(value), &first) < 0 ||
            json_int64(yyjson_arr_get_last(value), &count) < 0)
                return config_wrong(reader, "id_range",
                                    "id_range must be [first id, how many], as [200000, 1024]");
        /* 2^32 - 1 is no id but "none"; host uid 0 is never a sandbox's. */
        if (first < 1 || count < 1 || first >= UINT32_MAX || count > UINT32_MAX - first)
                return config_wrong(reader, "id_range",
                                    "id_range must lie within the ids 1 to 4294967294");
        reader->into->id_first = (uint32_t)first;
        reader->into->id_count = (uint32_t)count;
        return 0;
}

/* Where other clients keep their servers. */
static int warn_unknown(struct config_reader *reader, const char *name)
{
        if (strcmp(name, "servers") == 0 || strcmp(name, "mcp") == 0 ||
            strcmp(name, "mcp_servers") == 0 || strcmp(name, "context_servers") == 0)
                return config_warn(reader, name,
                                   "unknown key \"%s\"; servers go into \"mcpServers\"", name);
        return config_warn_unknown(reader, "", name, root_names);
}

static int read_member(struct config_reader *reader, const char *name, yyjson_val *value)
{
        const struct key *key = find_key(keys, ARRAY_SIZE(keys), name);

        if (key)
                return read_key(reader, key, "", value);
        if (strcmp(name, "mcpServers") == 0)
                return config_read_servers(reader, value);
        if (strcmp(name, "limits") == 0)
                return read_limits(reader, value);
        if (strcmp(name, "id_range") == 0)
                return read_id_range(reader, value);
        if (strcmp(name, "$schema") == 0)
                return 0;
        return warn_unknown(reader, name);
}

int config_read_root(struct config_reader *reader, yyjson_val *root)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(root);
        yyjson_val *name;

        if (!yyjson_is_obj(root))
                return config_wrong(reader, NULL,
                                    "the config must be an object: {\"mcpServers\": …}");
        while ((name = yyjson_obj_iter_next(&iter))) {
                int r = config_check_twice(reader, "", root, name);
                if (r >= 0)
                        r = read_member(reader, yyjson_get_str(name),
                                        yyjson_obj_iter_get_val(name));
                if (r < 0)
                        return r;
        }
        if (reader->into->cell_timeout_ms > reader->into->cell_timeout_max_ms)
                return config_wrong(reader, "timeout",
                                    "timeout is %g s, above timeout_max, which is %g s: set both",
                                    reader->into->cell_timeout_ms / 1000.0,
                                    reader->into->cell_timeout_max_ms / 1000.0);
        return 0;
}
