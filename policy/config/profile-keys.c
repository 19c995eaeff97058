/* The keys of a profile that need code: network, mounts, preload, servers, pool, freeze. */
#include "policy/config/profile-keys.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "policy/network-rules.h"
#include "policy/package-set.h"

enum {
        MODULE_NAME_MAX = 128,
        PRELOAD_BYTES_MAX = 2000, /* of all names; they share one message to the template */
        TARGET_MAX = 239,
        SOURCE_MAX = 4000,
};

/* ---- network ---- */

int config_read_network(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_profile *profile = r->profile;
        yyjson_val *allow = yyjson_obj_get(value, "allow");

        config_reset(key, profile);
        profile->network = CONFIG_NETWORK_NONE;
        if (yyjson_equals_str(value, "none"))
                return 0;
        if (yyjson_equals_str(value, "loopback")) {
                profile->network = CONFIG_NETWORK_LOOPBACK;
                return 0;
        }
        if (!yyjson_is_arr(allow) || yyjson_arr_size(allow) == 0)
                return config_mistake(
                        r, value,
                        "network must be \"none\", \"loopback\" or {\"allow\": [\"api.example.com:443\", \"*.example.org\"]}");
        profile->network = CONFIG_NETWORK_ALLOW;
        return config_read_object(r, key, value);
}

int config_check_hosts(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);
        struct network_rule rule;
        int e = 0;

        for (size_t i = 0; list[i] && e >= 0; i++) {
                const char *why = network_rule_parse(list[i], &rule);
                if (why)
                        e = config_mistake(r, yyjson_arr_get(value, i), "%s: \"%.100s\" %s",
                                           r->name, list[i], why);
        }
        return e;
}

/* ---- mounts ---- */

bool config_is_within(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Why a path cannot be the target of a mount, or NULL. */
static const char *target_wrong(const char *target)
{
        if (!path_is_clean(target) || strlen(target) > TARGET_MAX)
                return "must be an absolute path of at most 239 bytes, not / itself, without //, . and .., and without a / at its end";
        for (const char *p = target; *p; p++)
                if ((unsigned char)*p < ' ' || *p == 0x7f)
                        return "has characters that cannot be seen";
        if (config_is_within(target, "/proc") || config_is_within(target, "/dev"))
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

/* Reads a path of a mount. Returns NULL and reports a mistake if it is not valid. */
static const char *mount_path(struct config_reading *r, yyjson_val *mount, size_t i,
                              const char *key, const char *(*wrong)(const char *path), int *error)
{
        yyjson_val *value = yyjson_obj_get(mount, key);
        const char *text = config_text(value);
        const char *why = text ? wrong(text) : "must be a string";

        if (!why)
                return text;
        *error = config_mistake(r, value ? value : mount, "mounts: item %zu: %s %s", i, key, why);
        return NULL;
}

static int check_apart(struct config_reading *r, const char *target, yyjson_val *at)
{
        for (size_t i = 0; i < r->profile->n_mounts; i++) {
                const char *other = r->profile->mounts[i].target;
                if (config_is_within(target, other) || config_is_within(other, target))
                        return config_mistake(
                                r, at,
                                "mounts: the targets %s and %s are the same, or one is inside the other",
                                other, target);
        }
        return 0;
}

/* Warns of unknown and repeated keys; the rows of CONFIG_MOUNT are read here. */
static int check_mount_keys(struct config_reading *r, yyjson_val *mount, size_t i)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(mount);
        yyjson_val *name;
        char where[CONFIG_NAME_MAX];
        enum config_form form;
        int e = 0;

        snprintf(where, sizeof(where), "%smounts: item %zu: ", r->where, i);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                e = config_find_key(CONFIG_MOUNT, text, &form)
                            ? config_check_twice(r->reader, where, mount, name)
                            : config_warn_unknown(r->reader, where, name,
                                                  config_nearest_key(CONFIG_MOUNT, text));
        }
        return e;
}

static int read_mount(struct config_reading *r, yyjson_val *mount, size_t i)
{
        yyjson_val *mode = yyjson_obj_get(mount, "mode");
        int e = 0;

        if (!yyjson_is_obj(mount))
                return config_mistake(
                        r, mount,
                        "mounts: item %zu must be an object: {\"source\": …, \"target\": …}", i);
        e = check_mount_keys(r, mount, i);
        if (e < 0)
                return e;
        const char *source = mount_path(r, mount, i, "source", source_wrong, &e);
        const char *target = source ? mount_path(r, mount, i, "target", target_wrong, &e) : NULL;
        if (!target)
                return e;
        bool writable = yyjson_equals_str(mode, "rw");
        if (mode && !writable && !yyjson_equals_str(mode, "ro"))
                e = config_mistake(r, mode, "mounts: item %zu: mode must be \"ro\" or \"rw\"", i);
        if (e >= 0)
                e = check_apart(r, target, yyjson_obj_get(mount, "target"));
        if (e < 0)
                return e;
        struct config_mount *new = &r->profile->mounts[r->profile->n_mounts++];
        *new = (struct config_mount){strdup(source), strdup(target), writable};
        return new->source &&new->target ? 0 : config_no_memory(r->reader);
}

int config_read_mounts(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        yyjson_val *item;
        size_t i, n;
        int e = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) > key->most)
                return config_mistake(
                        r, value,
                        "mounts must be an array of at most %d objects: [{\"source\": …, \"target\": …, \"mode\": \"ro\"}]",
                        CONFIG_MOUNTS_MAX);
        config_reset(key, r->profile);
        r->profile->mounts = calloc(CONFIG_MOUNTS_MAX, sizeof(*r->profile->mounts));
        if (!r->profile->mounts)
                return config_no_memory(r->reader);
        yyjson_arr_foreach (value, i, n, item) {
                if (e >= 0)
                        e = read_mount(r, item, i + 1);
        }
        return e;
}

/* ---- preload, servers ---- */

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

int config_check_modules(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);
        size_t bytes = 0;

        for (size_t i = 0; list[i]; i++) {
                bytes += strlen(list[i]) + 1;
                if (!is_module(list[i]))
                        return config_mistake(
                                r, yyjson_arr_get(value, i),
                                "preload: item %zu must be a module's name such as \"numpy\" or \"xml.etree\"",
                                i + 1);
        }
        if (bytes > PRELOAD_BYTES_MAX)
                return config_mistake(r, value,
                                      "preload: the names are longer than %d bytes together",
                                      PRELOAD_BYTES_MAX);
        return 0;
}

int config_check_server_names(struct config_reading *r, const struct config_key *key,
                              yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);
        int e = 0;

        for (size_t i = 0; e >= 0 && list[i]; i++)
                e = config_refer(r->reader, CONFIG_SERVER_OF_PROFILE, r->profile->name, list[i],
                                 yyjson_arr_get(value, i));
        return e;
}

/* ---- pool, freeze ---- */

/* A number, or {"min", "max"}. A missing one has its default, limited by the other. */
int config_read_pool(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config_pool *pool = &r->profile->pool;
        enum config_form form;

        config_reset(key, r->profile);
        if (!yyjson_is_obj(value)) {
                r->into = pool;
                int e = config_read_value(r, config_find_key(CONFIG_POOL, "max", &form), value);
                pool->min = r->wrong ? pool->min : pool->max;
                return e;
        }
        int e = config_read_object(r, key, value);
        if (e < 0 || r->wrong)
                return e;
        if (!yyjson_obj_get(value, "min") && pool->min > pool->max)
                pool->min = pool->max;
        if (!yyjson_obj_get(value, "max") && pool->max < pool->min)
                pool->max = pool->min;
        if (pool->min > pool->max)
                return config_mistake(r, value, "pool.min must not be above pool.max");
        return 0;
}

/* 0 means never. A time shorter than the pause between two calls is an error. */
int config_check_freeze(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (r->profile->freeze_ms == 0 || r->profile->freeze_ms >= CONFIG_FREEZE_MIN_MS)
                return 0;
        r->profile->freeze_ms = 0;
        return config_mistake(r, value,
                              "freeze must be 0, for never, or from 0.1 s to 2.592e+06 s");
}

/* ---- packages ---- */

/* One requirement: a name, and specifiers that are compared with the version. */
static const char *allowed_wrong(const char *text)
{
        struct error why = {};
        const char *list = text, *word = NULL;
        size_t n = 0;

        if (package_check(text, &why) < 0 || strpbrk(text, "[;()"))
                return "must be a package's name, with a version if need be, such as \"numpy>=2\"";
        package_next(&list, &word, &n);
        return package_next(&list, &word, &n) ? "names two packages: write two items" : NULL;
}

int config_check_allowed_packages(struct config_reading *r, const struct config_key *key,
                                  yyjson_val *value)
{
        char *const *list = *(char ***)config_member(key, r->into);

        if (!list[0])
                return config_mistake(
                        r, value,
                        "allow names no package: leave it out to allow every package, or write \"install\": \"never\"");
        for (size_t i = 0; list[i]; i++) {
                const char *why = allowed_wrong(list[i]);
                if (why)
                        return config_mistake(r, yyjson_arr_get(value, i), "allow: item %zu %s",
                                              i + 1, why);
        }
        return 0;
}

int config_check_index(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        const char *text = *(char **)config_member(key, r->into);
        bool good = strlen(text) <= CONFIG_PACKAGES_INDEX_MAX &&
                    (strncmp(text, "https://", 8) == 0 || strncmp(text, "http://", 7) == 0 ||
                     strncmp(text, "file:///", 8) == 0 || strncmp(text, "${", 2) == 0);

        for (const char *c = text; good && *c; c++)
                good = (unsigned char)*c > ' ' && *c != 0x7f;
        return good ? 0
                    : config_mistake(
                              r, value,
                              "index must be the url of a package index, such as \"https://pypi.org/simple\"");
}

/* "14d", "2w", "36h", or a date, as "2026-01-31". */
static bool is_age_or_date(const char *text)
{
        size_t digits = strspn(text, "0123456789");

        if (digits > 0 && digits <= 5 && strchr("hdw", text[digits]) && text[digits] != '\0')
                return text[digits + 1] == '\0';
        for (size_t i = 0; i < 10; i++)
                if (i == 4 || i == 7 ? text[i] != '-' : !isdigit((unsigned char)text[i]))
                        return false;
        return text[10] == '\0';
}

int config_check_age(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (is_age_or_date(*(char **)config_member(key, r->into)))
                return 0;
        return config_mistake(
                r, value,
                "exclude_newer must be an age such as \"14d\", \"2w\" or \"36h\", or a date such as \"2026-01-31\"");
}
