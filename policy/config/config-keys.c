/* The keys at the top level of a config. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "policy/config/config-internal.h"

enum { SECOND = 1000, DAY = 24 * 3600 * SECOND };

#define MIB       (1024ull * 1024)
#define AT(field) offsetof(struct config, field)

static const struct config_key keys[] = {
        {"timeout", CONFIG_TIME, AT(cell_timeout_ms), 100, DAY},
        {"timeout_max", CONFIG_TIME, AT(cell_timeout_max_ms), 100, DAY},
        {"idle", CONFIG_TIME, AT(session_idle_ms), SECOND, 30u * DAY},
        {"sessions", CONFIG_COUNT, AT(sessions_max), 1, 4096},
        {"output", CONFIG_COUNT, AT(output_characters), 100, 10 * MIB},
        {"user", CONFIG_USER, AT(user), 0, 0},
};

/* The key that a misspelt one may mean. */
static const char *const root_names[] = {
        "mcpServers", "profiles", "profile", "clients",  "limits",      "network",
        "mounts",     "preload",  "image",   "python",   "timeout",     "idle",
        "sessions",   "output",   "user",    "id_range", "timeout_max", "log_level",
        "pool",       "freeze",   "publish", "state",    "packages",    NULL,
};

static const struct config_key *find_key(const struct config_key *list, size_t n, const char *name)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(list[i].name, name) == 0)
                        return &list[i];
        return NULL;
}

static int read_id_range(struct config_reader *reader, yyjson_val *value)
{
        int64_t first = 0, count = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) != 2 ||
            json_int64(yyjson_arr_get_first(value), &first) < 0 ||
            json_int64(yyjson_arr_get_last(value), &count) < 0)
                return config_wrong(reader, value,
                                    "id_range must be [first id, how many], as [200000, 1024]");
        /* 2^32 - 1 means "no id", and no sandbox may use host uid 0. */
        if (first < 1 || count < 1 || first >= UINT32_MAX || count > UINT32_MAX - first)
                return config_wrong(reader, value,
                                    "id_range must lie within the ids 1 to 4294967294");
        reader->into->id_first = (uint32_t)first;
        reader->into->id_count = (uint32_t)count;
        return 0;
}

static int read_log_level(struct config_reader *reader, yyjson_val *value)
{
        const char *text = config_text(value);
        int level = text ? log_level_from_name(text) : -1;

        if (level < 0)
                return config_wrong(
                        reader, value,
                        "log_level must be \"error\", \"warning\", \"info\" or \"debug\"");
        reader->into->log_level = level;
        return 0;
}

/* The keys under which other clients have their servers. */
static int warn_unknown(struct config_reader *reader, yyjson_val *key)
{
        const char *name = yyjson_get_str(key);

        if (strcmp(name, "servers") == 0 || strcmp(name, "mcp") == 0 ||
            strcmp(name, "mcp_servers") == 0 || strcmp(name, "context_servers") == 0)
                return config_warn(reader, key,
                                   "unknown key \"%s\"; servers go into \"mcpServers\"", name);
        return config_warn_unknown(reader, "", key, root_names);
}

static int ignore(struct config_reader *reader, yyjson_val *value)
{
        return 0;
}

static const struct {
        const char *name;
        int (*read)(struct config_reader *reader, yyjson_val *value);
} parts[] = {
        {"mcpServers", config_read_servers}, {"profiles", config_read_profiles},
        {"profile", config_read_profile},    {"clients", config_read_clients},
        {"publish", config_read_publish},    {"id_range", read_id_range},
        {"log_level", read_log_level},       {"$schema", ignore},
};

static int read_member(struct config_reader *reader, yyjson_val *name, yyjson_val *value)
{
        const char *text = yyjson_get_str(name);
        const struct config_key *key = find_key(keys, ARRAY_SIZE(keys), text);

        if (key)
                return config_read_value(reader, key, "", value, reader->into);
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (strcmp(parts[i].name, text) == 0)
                        return parts[i].read(reader, value);
        int r = config_read_profile_member(reader, &reader->into->top, true, "", name, value);
        return r == 1 ? warn_unknown(reader, name) : r;
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
                        r = read_member(reader, name, yyjson_obj_iter_get_val(name));
                if (r < 0)
                        return r;
        }
        if (reader->into->cell_timeout_ms > reader->into->cell_timeout_max_ms)
                return config_wrong(reader, yyjson_obj_get(root, "timeout"),
                                    "timeout is %g s, above timeout_max, which is %g s: set both",
                                    reader->into->cell_timeout_ms / 1000.0,
                                    reader->into->cell_timeout_max_ms / 1000.0);
        return 0;
}
