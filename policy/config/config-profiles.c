/*
 * The keys of profiles: "profiles", "profile", "clients", and the top-level keys that are the
 * defaults of all profiles.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/config-internal.h"
#include "policy/config/config-network.h"
#include "policy/config/config-profile.h"
#include "policy/image.h"

enum {
        MODULE_NAME_MAX = 128,
        PRELOAD_BYTES_MAX = 2000, /* of all names; they share one message to the template */
        TARGET_MAX = 239,
        SOURCE_MAX = 4000,
        FREEZE_MAX_MS = 30 * 24 * 3600 * 1000u,
};

#define MIB       (1024ull * 1024)
#define TIB       (1024ull * 1024 * MIB)
#define AT(field) offsetof(struct config_profile, field)

const struct config_key config_limit_keys[CONFIG_LIMITS] = {
        {"memory", CONFIG_BYTES, AT(limits.memory), 64 * MIB, 64 * TIB},
        {"pids", CONFIG_COUNT, AT(limits.pids), 8, 4 * MIB},
        {"cpu", CONFIG_CORES, AT(limits.cpu_milli), 10, 1024 * 1000},
        {"tmp", CONFIG_BYTES, AT(limits.tmp), 64 * 1024, 64 * TIB},
        {"workspace", CONFIG_BYTES, AT(limits.workspace), 64 * 1024, 64 * TIB},
        {"shm", CONFIG_BYTES, AT(limits.shm), 64 * 1024, 64 * TIB},
};

static const char *const limit_names[] = {"memory", "pids", "cpu", "tmp", "workspace", "shm", NULL};

static const struct config_key image_key = {"image", CONFIG_IMAGE, AT(image), 0, 0};
static const struct config_key python_key = {"python", CONFIG_PATH, AT(python), 0, 0};

/* A profile while it is read. */
struct reading {
        struct config_reader *reader;
        struct config_profile *profile;
        const char *where; /* `profile "x": ` or "" */
};

static int read_limit(struct reading *r, yyjson_val *name, yyjson_val *value, const char *where)
{
        for (size_t i = 0; i < CONFIG_LIMITS; i++) {
                if (strcmp(config_limit_keys[i].name, yyjson_get_str(name)) != 0)
                        continue;
                r->profile->said |= SAID_LIMIT(i);
                char dotted[CONFIG_NAME_MAX];
                snprintf(dotted, sizeof(dotted), "%slimits.", r->where);
                return config_read_value(r->reader, &config_limit_keys[i], dotted, value,
                                         r->profile);
        }
        return config_warn_unknown(r->reader, where, name, limit_names);
}

static int read_limits(struct reading *r, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        char where[CONFIG_NAME_MAX];
        int error = 0;

        if (!yyjson_is_obj(object))
                return config_wrong(r->reader, object, "%slimits must be an object", r->where);
        snprintf(where, sizeof(where), "%slimits: ", r->where);
        while (error >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                error = config_check_twice(r->reader, where, object, name);
                if (error >= 0)
                        error = read_limit(r, name, yyjson_obj_iter_get_val(name), where);
        }
        return error;
}

static int read_image(struct reading *r, yyjson_val *value)
{
        return config_read_value(r->reader, &image_key, r->where, value, r->profile);
}

static int read_python(struct reading *r, yyjson_val *value)
{
        return config_read_value(r->reader, &python_key, r->where, value, r->profile);
}

static int read_network(struct reading *r, yyjson_val *value)
{
        return config_read_network(r->reader, r->profile, r->where, value);
}

/* Whether the path is below the other, or is the same. */
static bool is_within(const char *path, const char *other)
{
        size_t n = strlen(other);

        return strncmp(path, other, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_normal(const char *path)
{
        if (path[0] != '/' || path[1] == '\0')
                return false;
        for (const char *p = path; *p; p += strcspn(p, "/")) {
                p++;
                size_t n = strcspn(p, "/");
                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
        }
        return true;
}

/* Why a path cannot be the target of a mount, or NULL. */
static const char *target_wrong(const char *target)
{
        if (!is_normal(target) || strlen(target) > TARGET_MAX)
                return "must be an absolute path of at most 239 bytes, not / itself, without //, . and .., and without a / at its end";
        for (const char *p = target; *p; p++)
                if ((unsigned char)*p < ' ' || *p == 0x7f)
                        return "has characters that cannot be seen";
        if (is_within(target, "/proc") || is_within(target, "/dev"))
                return "must not be in /proc or /dev";
        if (strcmp(target, "/tmp") == 0 || strcmp(target, "/workspace") == 0)
                return "must not be /tmp or /workspace itself, which are the session's own; a directory below is fine";
        return NULL;
}

static const char *source_wrong(const char *source)
{
        bool home = source[0] == '~' && (source[1] == '/' || source[1] == '\0');

        if ((source[0] != '/' && !home) || strlen(source) > SOURCE_MAX)
                return "must be an absolute path, or begin with ~/";
        return NULL;
}

static int read_mode(struct reading *r, yyjson_val *value, size_t i, bool *writable)
{
        const char *text = value ? config_text(value) : "ro";

        if (!text || (strcmp(text, "ro") != 0 && strcmp(text, "rw") != 0))
                return config_wrong(r->reader, value,
                                    "%smounts: item %zu: mode must be \"ro\" or \"rw\"", r->where,
                                    i);
        *writable = strcmp(text, "rw") == 0;
        return 0;
}

/* Reads a path of a mount. Returns NULL and sets an error if it is not valid. */
static const char *mount_path(struct reading *r, yyjson_val *mount, size_t i, const char *key,
                              const char *(*wrong)(const char *path), int *error)
{
        yyjson_val *value = yyjson_obj_get(mount, key);
        const char *text = config_text(value);
        const char *why = text ? wrong(text) : "must be a string";

        if (!why)
                return text;
        *error = config_wrong(r->reader, value ? value : mount, "%smounts: item %zu: %s %s",
                              r->where, i, key, why);
        return NULL;
}

static int check_apart(struct reading *r, const char *target, yyjson_val *at)
{
        for (size_t i = 0; i < r->profile->n_mounts; i++) {
                const char *other = r->profile->mounts[i].target;
                if (is_within(target, other) || is_within(other, target))
                        return config_wrong(
                                r->reader, at,
                                "%smounts: the targets %s and %s are the same, or one is inside the other",
                                r->where, other, target);
        }
        return 0;
}

static int check_mount_keys(struct reading *r, yyjson_val *mount, size_t i)
{
        static const char *const names[] = {"source", "target", "mode", NULL};
        yyjson_obj_iter iter = yyjson_obj_iter_with(mount);
        yyjson_val *name;
        char where[CONFIG_NAME_MAX];
        int error = 0;

        snprintf(where, sizeof(where), "%smounts: item %zu: ", r->where, i);
        while (error >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *const *known = names;
                while (*known && strcmp(*known, yyjson_get_str(name)) != 0)
                        known++;
                error = *known ? config_check_twice(r->reader, where, mount, name)
                               : config_warn_unknown(r->reader, where, name, names);
        }
        return error;
}

static int read_mount(struct reading *r, yyjson_val *mount, size_t i)
{
        struct config_mount new = {};
        int error = 0;

        if (!yyjson_is_obj(mount))
                return config_wrong(
                        r->reader, mount,
                        "%smounts: item %zu must be an object: {\"source\": …, \"target\": …}",
                        r->where, i);
        error = check_mount_keys(r, mount, i);
        if (error < 0)
                return error;
        const char *source = mount_path(r, mount, i, "source", source_wrong, &error);
        const char *target = source ? mount_path(r, mount, i, "target", target_wrong, &error)
                                    : NULL;
        if (!target)
                return error;
        error = read_mode(r, yyjson_obj_get(mount, "mode"), i, &new.writable);
        if (error >= 0)
                error = check_apart(r, target, yyjson_obj_get(mount, "target"));
        if (error < 0)
                return error;
        new.source = strdup(source);
        new.target = strdup(target);
        r->profile->mounts[r->profile->n_mounts++] = new;
        return new.source &&new.target ? 0 : config_no_memory(r->reader);
}

static int read_mounts(struct reading *r, yyjson_val *value)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(value);
        size_t i = 0;
        yyjson_val *item;
        int error = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > CONFIG_MOUNTS_MAX)
                return config_wrong(
                        r->reader, value,
                        "%smounts must be an array of at most %d objects: [{\"source\": …, \"target\": …, \"mode\": \"ro\"}]",
                        r->where, CONFIG_MOUNTS_MAX);
        config_profile_drop_mounts(r->profile);
        r->profile->mounts = calloc(CONFIG_MOUNTS_MAX, sizeof(*r->profile->mounts));
        if (!r->profile->mounts)
                return config_no_memory(r->reader);
        while (error >= 0 && (item = yyjson_arr_iter_next(&iter)))
                error = read_mount(r, item, ++i);
        return error;
}

/* A dotted name of ASCII identifiers. */
static bool is_module(const char *name)
{
        static const char letters[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

        if (strlen(name) > MODULE_NAME_MAX)
                return false;
        for (;; name++) {
                size_t n = strspn(name, letters);
                if (n == 0 || (name[0] >= '0' && name[0] <= '9'))
                        return false;
                name += n;
                if (*name != '.')
                        return *name == '\0';
        }
}

static int complaint(struct reading *r, int error, const struct config_complaint *bad)
{
        if (error == -ENOMEM)
                return config_no_memory(r->reader);
        if (error < 0 || !*bad->text)
                return error;
        return config_wrong(r->reader, bad->at, "%s%s", r->where, bad->text);
}

static int read_preload(struct reading *r, yyjson_val *value)
{
        struct config_complaint bad = {};
        size_t bytes = 0;

        int error = config_read_names(value, "preload", CONFIG_PRELOAD_MAX, &r->profile->preload,
                                      &bad);
        if (error < 0 || *bad.text)
                return complaint(r, error, &bad);
        for (size_t i = 0; r->profile->preload[i]; i++) {
                bytes += strlen(r->profile->preload[i]) + 1;
                if (!is_module(r->profile->preload[i]))
                        return config_wrong(
                                r->reader, yyjson_arr_get(value, i),
                                "%spreload: item %zu must be a module's name such as \"numpy\" or \"xml.etree\"",
                                r->where, i + 1);
        }
        if (bytes > PRELOAD_BYTES_MAX)
                return config_wrong(r->reader, value,
                                    "%spreload: the names are longer than %d bytes together",
                                    r->where, PRELOAD_BYTES_MAX);
        return 0;
}

static int read_servers(struct reading *r, yyjson_val *value)
{
        struct config_complaint bad = {};
        int error = config_read_names(value, "servers", CONFIG_SERVERS_MAX, &r->profile->servers,
                                      &bad);

        if (error < 0 || *bad.text)
                return complaint(r, error, &bad);
        for (size_t i = 0; error >= 0 && r->profile->servers[i]; i++)
                error = config_refer(r->reader, CONFIG_SERVER_OF_PROFILE, r->profile->name,
                                     r->profile->servers[i], yyjson_arr_get(value, i));
        return error;
}

static int read_tools(struct reading *r, yyjson_val *value)
{
        struct config_complaint bad = {};

        config_rules_done(&r->profile->tools);
        int error = config_read_rules(r->reader, r->where, value, &r->profile->tools, &bad);
        return complaint(r, error, &bad);
}

static const struct config_key pool_key = {"pool", CONFIG_COUNT, AT(pool.max), 0, CONFIG_POOL_MAX};
static const struct config_key pool_keys[] = {
        {"min", CONFIG_COUNT, AT(pool.min), 0, CONFIG_POOL_MAX},
        {"max", CONFIG_COUNT, AT(pool.max), 0, CONFIG_POOL_MAX},
};

static int read_pool_members(struct reading *r, yyjson_val *object)
{
        static const char *const names[] = {"min", "max", NULL};
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *name;
        char where[CONFIG_NAME_MAX], dotted[CONFIG_NAME_MAX];
        int error = 0;

        snprintf(where, sizeof(where), "%spool: ", r->where);
        snprintf(dotted, sizeof(dotted), "%spool.", r->where);
        while (error >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                size_t i = 0;
                while (i < ARRAY_SIZE(pool_keys) &&
                       strcmp(pool_keys[i].name, yyjson_get_str(name)) != 0)
                        i++;
                error = config_check_twice(r->reader, where, object, name);
                if (error >= 0 && i == ARRAY_SIZE(pool_keys))
                        error = config_warn_unknown(r->reader, where, name, names);
                else if (error >= 0)
                        error = config_read_value(r->reader, &pool_keys[i], dotted,
                                                  yyjson_obj_iter_get_val(name), r->profile);
        }
        return error;
}

/* A number, or {"min", "max"}. A missing one has its default, limited by the other. */
static int read_pool(struct reading *r, yyjson_val *value)
{
        struct config_pool *pool = &r->profile->pool;

        *pool = (struct config_pool){CONFIG_POOL_MIN_DEFAULT, CONFIG_POOL_MAX_DEFAULT};
        if (!yyjson_is_obj(value)) {
                int error = config_read_value(r->reader, &pool_key, r->where, value, r->profile);
                if (error >= 0)
                        pool->min = pool->max;
                return error;
        }
        int error = read_pool_members(r, value);
        if (error < 0)
                return error;
        if (!yyjson_obj_get(value, "min") && pool->min > pool->max)
                pool->min = pool->max;
        if (!yyjson_obj_get(value, "max") && pool->max < pool->min)
                pool->max = pool->min;
        if (pool->min > pool->max)
                return config_wrong(r->reader, value, "%spool.min must not be above pool.max",
                                    r->where);
        return 0;
}

static const struct config_key freeze_key = {"freeze", CONFIG_TIME, AT(freeze_ms), 0,
                                             FREEZE_MAX_MS};

/* 0 means never. A time shorter than the pause between two calls is an error. */
static int read_freeze(struct reading *r, yyjson_val *value)
{
        int error = config_read_value(r->reader, &freeze_key, r->where, value, r->profile);
        uint32_t ms = r->profile->freeze_ms;

        if (error < 0 || ms == 0 || ms >= CONFIG_FREEZE_MIN_MS)
                return error;
        r->profile->freeze_ms = 0;
        return config_wrong(r->reader, value,
                            "%sfreeze must be 0, for never, or from 0.1 s to 2.592e+06 s",
                            r->where);
}

static bool is_one_of(const char *name, const char *const *names)
{
        while (*names && strcmp(*names, name) != 0)
                names++;
        return *names;
}

/* {"survives": true or false, "checkpoints": n} */
static int read_state(struct reading *r, yyjson_val *value)
{
        static const char *const names[] = {"survives", "checkpoints", NULL};
        yyjson_obj_iter iter = yyjson_obj_iter_with(value);
        yyjson_val *name, *survives = yyjson_obj_get(value, "survives");
        yyjson_val *most = yyjson_obj_get(value, "checkpoints");
        int64_t checkpoints = CONFIG_CHECKPOINTS;
        char where[CONFIG_NAME_MAX];
        int error = 0;

        if (!yyjson_is_obj(value) || (survives && !yyjson_is_bool(survives)) ||
            (most && json_int64(most, &checkpoints) < 0) || checkpoints < 0 ||
            checkpoints > CONFIG_CHECKPOINTS_MAX)
                return config_wrong(
                        r->reader, value,
                        "%sstate must be {\"survives\": true or false, \"checkpoints\": 0 to %d}",
                        r->where, CONFIG_CHECKPOINTS_MAX);
        snprintf(where, sizeof(where), "%sstate: ", r->where);
        while (error >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                error = config_check_twice(r->reader, where, value, name);
                if (error >= 0 && !is_one_of(yyjson_get_str(name), names))
                        error = config_warn_unknown(r->reader, where, name, names);
        }
        r->profile->survives = !survives || yyjson_get_bool(survives);
        r->profile->checkpoints = (uint32_t)checkpoints;
        return error;
}

static int read_packages(struct reading *r, yyjson_val *value)
{
        return config_read_packages(r->reader, r->where, value, &r->profile->packages);
}

static int read_agent(struct reading *r, yyjson_val *value)
{
        if (!yyjson_is_bool(value))
                return config_wrong(r->reader, value, "%sagent must be true or false", r->where);
        r->profile->agent = yyjson_get_bool(value);
        return 0;
}

static const struct {
        const char *name;
        uint32_t said;
        int (*read)(struct reading *r, yyjson_val *value);
        bool top; /* also allowed at the top level */
} members[] = {
        {"image", SAID_IMAGE, read_image, true},
        {"python", SAID_PYTHON, read_python, true},
        {"limits", 0, read_limits, true},
        {"network", SAID_NETWORK, read_network, true},
        {"mounts", SAID_MOUNTS, read_mounts, true},
        {"preload", SAID_PRELOAD, read_preload, true},
        {"servers", SAID_SERVERS, read_servers, false},
        {"tools", SAID_TOOLS, read_tools, false},
        {"pool", SAID_POOL, read_pool, true},
        {"freeze", SAID_FREEZE, read_freeze, true},
        {"state", SAID_STATE, read_state, true},
        {"agent", SAID_AGENT, read_agent, false},
        {"packages", SAID_PACKAGES, read_packages, true},
};

static const char *const member_names[] = {
        "image", "python", "limits", "network", "mounts", "preload",  "servers",
        "tools", "agent",  "pool",   "freeze",  "state",  "packages", NULL,
};

int config_read_profile_member(struct config_reader *reader, struct config_profile *profile,
                               bool top, const char *where, yyjson_val *name, yyjson_val *value)
{
        struct reading r = {reader, profile, where};

        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                if (strcmp(members[i].name, yyjson_get_str(name)) != 0 || (top && !members[i].top))
                        continue;
                profile->said |= members[i].said;
                return members[i].read(&r, value);
        }
        return 1;
}

static int read_profile(struct config_reader *reader, const char *name, yyjson_val *object)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(object);
        yyjson_val *key;
        char where[CONFIG_NAME_MAX];
        int r = 0;

        snprintf(where, sizeof(where), "profile \"%s\": ", name);
        if (!yyjson_is_obj(object))
                return config_wrong(reader, object, "%smust be an object", where);
        struct config_profile *profile = config_profile_named(reader->into, name);
        if (!profile)
                return config_no_memory(reader);
        while (r >= 0 && (key = yyjson_obj_iter_next(&iter))) {
                r = config_check_twice(reader, where, object, key);
                if (r >= 0)
                        r = config_read_profile_member(reader, profile, false, where, key,
                                                       yyjson_obj_iter_get_val(key));
                if (r == 1)
                        r = config_warn_unknown(reader, where, key, member_names);
        }
        return r;
}

int config_read_profiles(struct config_reader *reader, yyjson_val *profiles)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(profiles);
        yyjson_val *name;
        int r = 0;

        if (!yyjson_is_obj(profiles) || yyjson_obj_size(profiles) >= CONFIG_PROFILES_MAX)
                return config_wrong(
                        reader, profiles,
                        "profiles must be an object of at most %d profiles: {\"NAME\": {…}}",
                        CONFIG_PROFILES_MAX - 1);
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = config_text(name);
                r = config_check_twice(reader, "profiles: ", profiles, name);
                if (r >= 0 && (!text || !image_name_valid(text)))
                        r = config_wrong(
                                reader, name,
                                "profiles: a profile's name is 1 to 64 letters, digits, _ . - and begins with no dot");
                else if (r >= 0)
                        r = read_profile(reader, text, yyjson_obj_iter_get_val(name));
        }
        return r;
}

int config_read_profile(struct config_reader *reader, yyjson_val *profile)
{
        const char *name = config_text(profile);

        if (!name || !image_name_valid(name))
                return config_wrong(reader, profile, "profile must be the name of a profile");
        return config_refer(reader, CONFIG_PROFILE_OF_ALL, NULL, name, profile);
}

static int read_client(struct config_reader *reader, yyjson_val *client, yyjson_val *profile)
{
        const char *from = config_text(client), *to = config_text(profile);

        if (!from || *from == '\0' || strlen(from) > CONFIG_NAME_MAX)
                return config_wrong(reader, client,
                                    "clients: a client's name is 1 to %d bytes long",
                                    CONFIG_NAME_MAX);
        if (!to || !image_name_valid(to))
                return config_wrong(reader, profile, "clients: %s must be the name of a profile",
                                    from);
        return config_refer(reader, CONFIG_PROFILE_OF_CLIENT, from, to, profile);
}

int config_read_clients(struct config_reader *reader, yyjson_val *clients)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(clients);
        yyjson_val *name;
        int r = 0;

        if (!yyjson_is_obj(clients) || yyjson_obj_size(clients) > CONFIG_CLIENTS_MAX)
                return config_wrong(
                        reader, clients,
                        "clients must be an object of at most %d clients: {\"CLIENT\": \"PROFILE\"}",
                        CONFIG_CLIENTS_MAX);
        while (r >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                r = config_check_twice(reader, "clients: ", clients, name);
                if (r >= 0)
                        r = read_client(reader, name, yyjson_obj_iter_get_val(name));
        }
        return r;
}
