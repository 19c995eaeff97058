/*
 * Files become a config.
 *
 * While files are read, a profile has only the keys that the config sets for it, and a bit for each of them; keys of a later
 * file replace those of an earlier one. config_finish() completes each: the top level, then the keys that the profile sets.
 */
#include "policy/config/add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/path.h"
#include "policy/config/as-keys.h"
#include "policy/config/ask-keys.h"
#include "policy/config/bound.h"
#include "policy/config/journal-keys.h"
#include "policy/config/keys.h"
#include "policy/config/network-keys.h"
#include "policy/config/node-keys.h"
#include "policy/config/package-keys.h"
#include "policy/config/program-keys.h"
#include "policy/config/publish.h"
#include "policy/config/rule-keys.h"
#include "policy/config/rule-test-keys.h"
#include "policy/config/run.h"
#include "policy/config/secret-keys.h"
#include "policy/config/server-keys.h"
#include "policy/did-you-mean.h"
#include "policy/image.h"

#define CONFIG_PROFILE_DEFAULT "default"
DEFINE_CLEANUP(struct config *, config_free)

enum {
        WHERE_MAX = 256,
        MODULE_NAME_MAX = 128,
        PRELOAD_BYTES_MAX = 2000, /* of all names; they share one message to the template */
        TARGET_MAX = 239,
        SOURCE_MAX = 4000,
};

/* ---- keys of the file ---- */

static int read_named_profile(struct config_reading *r, const char *name, yyjson_val *object)
{
        char where[WHERE_MAX];

        snprintf(where, sizeof(where), "profile \"%s\": ", name);
        if (!yyjson_is_obj(object))
                return config_wrong(r->reader, object, "%smust be an object", where);
        struct config_profile *profile = config_profile_named(r->reader->into, name);
        if (!profile)
                return config_no_memory(r->reader);
        struct config_reading inner = {.reader = r->reader,
                                       .codes = r->codes,
                                       .into = profile,
                                       .profile = profile,
                                       .where = where,
                                       .path = ""};
        return config_read_members(&inner, CONFIG_PROFILE, object);
}

static int read_profiles(struct config_reading *r, const struct config_key *key,
                         yyjson_val *profiles)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(profiles);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(profiles) || yyjson_obj_size(profiles) >= CONFIG_PROFILES_MAX)
                return config_mistake(
                        r, profiles,
                        "profiles must be an object of at most %d profiles: {\"NAME\": {…}}",
                        CONFIG_PROFILES_MAX - 1);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = config_text(name);
                e = config_check_twice(r->reader, "profiles: ", profiles, name);
                if (e >= 0 && (!text || !image_name_valid(text)))
                        e = config_mistake(
                                r, name,
                                "profiles: a profile's name is 1 to 64 letters, digits, _ . - and begins with no dot");
                else if (e >= 0)
                        e = read_named_profile(r, text, yyjson_obj_iter_get_val(name));
        }
        return e;
}

static int read_profile(struct config_reading *r, const struct config_key *key, yyjson_val *profile)
{
        const char *name = config_text(profile);

        if (!name || !image_name_valid(name))
                return config_mistake(r, profile, "profile must be the name of a profile");
        return config_refer(r->reader, CONFIG_PROFILE_OF_ALL, NULL, name, profile);
}

static int read_client(struct config_reading *r, yyjson_val *client, yyjson_val *profile)
{
        const char *from = config_text(client), *to = config_text(profile);

        if (!from || *from == '\0' || strlen(from) > CONFIG_NAME_MAX)
                return config_mistake(r, client, "clients: a client's name is 1 to %d bytes long",
                                      CONFIG_NAME_MAX);
        if (!to || !image_name_valid(to))
                return config_mistake(r, profile, "clients: %s must be the name of a profile",
                                      from);
        return config_refer(r->reader, CONFIG_PROFILE_OF_CLIENT, from, to, profile);
}

static int read_clients(struct config_reading *r, const struct config_key *key, yyjson_val *clients)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(clients);
        yyjson_val *name;
        int e = 0;

        if (!yyjson_is_obj(clients) || yyjson_obj_size(clients) > CONFIG_CLIENTS_MAX)
                return config_mistake(
                        r, clients,
                        "clients must be an object of at most %d clients: {\"CLIENT\": \"PROFILE\"}",
                        CONFIG_CLIENTS_MAX);
        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                e = config_check_twice(r->reader, "clients: ", clients, name);
                if (e >= 0)
                        e = read_client(r, name, yyjson_obj_iter_get_val(name));
        }
        return e;
}

static int read_id_range(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        struct config *config = r->into;
        int64_t first = 0, count = 0;

        if (!yyjson_is_arr(value) || yyjson_arr_size(value) != 2 ||
            json_int64(yyjson_arr_get_first(value), &first) < 0 ||
            json_int64(yyjson_arr_get_last(value), &count) < 0)
                return config_mistake(r, value,
                                      "id_range must be [first id, how many], as [200000, 1024]");
        /* 2^32 - 1 means "no id", and no sandbox may use host uid 0. */
        if (first < 1 || count < 1 || first >= UINT32_MAX || count > UINT32_MAX - first)
                return config_mistake(r, value, "id_range must lie within the ids 1 to 4294967294");
        config->id_first = (uint32_t)first;
        config->id_count = (uint32_t)count;
        return 0;
}

/* ---- mounts ---- */

static bool is_within(const char *path, const char *folder)
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

static int check_target(struct config_reading *r, const char *target, yyjson_val *at)
{
        for (size_t i = 0; i < r->profile->n_mounts; i++) {
                const char *other = r->profile->mounts[i].target;
                if (is_within(target, other) || is_within(other, target))
                        return config_mistake(
                                r, at,
                                "mounts: the targets %s and %s are the same, or one is inside the other",
                                other, target);
        }
        return 0;
}

static int read_mount(struct config_reading *r, yyjson_val *mount, size_t i)
{
        yyjson_val *mode = yyjson_obj_get(mount, "mode"), *locks = yyjson_obj_get(mount, "locks");
        yyjson_val *is_private = yyjson_obj_get(mount, "private");
        struct config_reading inner = *r;
        char path[CONFIG_NAME_MAX];

        if (!yyjson_is_obj(mount))
                return config_mistake(
                        r, mount,
                        "mounts: item %zu must be an object: {\"source\": …, \"target\": …}", i);
        /* Warns of unknown and repeated keys; the rows of CONFIG_MOUNT are read here. */
        snprintf(path, sizeof(path), "mounts: item %zu.", i);
        inner.path = path;
        int e = config_read_members(&inner, CONFIG_MOUNT, mount);
        if (e < 0)
                return e;
        const char *source = mount_path(r, mount, i, "source", source_wrong, &e);
        const char *target = source ? mount_path(r, mount, i, "target", target_wrong, &e) : NULL;
        if (!target)
                return e;
        bool writable = yyjson_equals_str(mode, "rw");
        if (mode && !writable && !yyjson_equals_str(mode, "ro"))
                e = config_mistake(r, mode, "mounts: item %zu: mode must be \"ro\" or \"rw\"", i);
        if (e >= 0 && locks && !yyjson_is_bool(locks))
                e = config_mistake(r, locks, "mounts: item %zu: locks must be true or false", i);
        if (e >= 0 && is_private && !yyjson_is_bool(is_private))
                e = config_mistake(r, is_private, "mounts: item %zu: private must be true or false",
                                   i);
        if (e >= 0 && yyjson_is_true(locks) && !writable)
                e = config_mistake(
                        r, locks,
                        "mounts: item %zu: locks needs \"mode\": \"rw\": code could keep programs of the host from files that it may not write",
                        i);
        if (e >= 0)
                e = check_target(r, target, yyjson_obj_get(mount, "target"));
        if (e < 0)
                return e;
        struct config_mount *new = &r->profile->mounts[r->profile->n_mounts++];
        *new = (struct config_mount){strdup(source), strdup(target), writable,
                                     yyjson_is_true(locks), yyjson_is_true(is_private)};
        return new->source &&new->target ? 0 : config_no_memory(r->reader);
}

static int read_mounts(struct config_reading *r, const struct config_key *key, yyjson_val *value)
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

static int check_modules(struct config_reading *r, const struct config_key *key, yyjson_val *value)
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

static int check_server_names(struct config_reading *r, const struct config_key *key,
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
static int read_pool(struct config_reading *r, const struct config_key *key, yyjson_val *value)
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
static int check_freeze(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        if (r->profile->freeze_ms == 0 || r->profile->freeze_ms >= CONFIG_FREEZE_MIN_MS)
                return 0;
        r->profile->freeze_ms = 0;
        return config_mistake(r, value,
                              "freeze must be 0, for never, or from 0.1 s to 2.592e+06 s");
}

static int check_sum(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        return config_refer(r->reader, CONFIG_SUM_OF_SESSIONS, NULL, key->name, value);
}

static config_code_fn *const codes[CONFIG_CODES] = {
#define ROW(code, function) [CODE_##code] = (function),
#include "policy/config/codes.def"
#undef ROW
};

/* ---- a file ---- */

/* A file of a directory of the other system. */
static int read_only_servers(struct config_reading *r, yyjson_val *root)
{
        yyjson_obj_iter iter = yyjson_obj_iter_with(root);
        yyjson_val *name;
        enum config_form form;
        int e = 0;

        while (e >= 0 && (name = yyjson_obj_iter_next(&iter))) {
                const char *text = yyjson_get_str(name);
                const struct config_key *key = config_find_key(CONFIG_TOP, text, &form);
                r->name = text;
                r->form = CONFIG_SAME;
                if (key && strcmp(key->name, "mcpServers") == 0)
                        e = config_read_value(r, key, yyjson_obj_iter_get_val(name));
                else if (key && key->name[0] != '$')
                        e = config_warn(r->reader, name,
                                        "\"%s\" has no effect here: only mcpServers counts", text);
        }
        return e;
}

static int read_file(struct config_reader *reader, yyjson_val *root)
{
        struct config *into = reader->into;
        struct config_reading r = {.reader = reader,
                                   .codes = codes,
                                   .into = into,
                                   .profile = &into->top,
                                   .where = "",
                                   .path = ""};

        if (!yyjson_is_obj(root))
                return config_wrong(reader, NULL,
                                    "the config must be an object: {\"mcpServers\": …}");
        int e = reader->layer == CONFIG_LAYER_SERVERS ? read_only_servers(&r, root)
                                                      : config_read_members(&r, CONFIG_TOP, root);
        if (e >= 0)
                into->said = config_said(root);
        if (e >= 0 && reader->layer == CONFIG_LAYER_USER && yyjson_obj_get(root, "as"))
                e = config_wrong(reader, yyjson_obj_get(root, "as"),
                                 "\"as\" makes the file a table: start it with --as %s",
                                 reader->file);
        if (e >= 0 && into->cell_timeout_ms > into->cell_timeout_max_ms)
                return config_wrong(reader, yyjson_obj_get(root, "timeout"),
                                    "timeout is %g s, above timeout_max, which is %g s: set both",
                                    into->cell_timeout_ms / 1000.0,
                                    into->cell_timeout_max_ms / 1000.0);
        return e;
}

static bool is_plain(const struct config_key *key)
{
        return (key->place == CONFIG_TOP || key->place == CONFIG_METRICS) && config_is_number(key);
}

/* Makes the config of one file, which begins with the numbers of the earlier files. */
static struct config *new_from(const struct config *before)
{
        struct config *config = config_new();

        if (!config)
                return NULL;
        config->findings = before->findings;
        for (const struct config_key *key = NULL; (key = config_next_own_key(key));)
                if (is_plain(key))
                        config_set_number(key, config, config_number(key, before));
        return config;
}

/* Moves the keys that one of them sets to the other. */
static void overlay(struct config_profile *to, struct config_profile *from)
{
        static const char *const interpreters[] = {"python", "language", "nodejs", "pyodide"};
        enum config_form form;
        uint64_t said = from->said;

        /* A profile that sets an interpreter uses that interpreter's default image. */
        for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++)
                if (said & config_key_bit(config_find_key(CONFIG_PROFILE, interpreters[i], &form)))
                        said |= config_key_bit(config_find_key(CONFIG_PROFILE, "image", &form));
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_PROFILE, key));) {
                if (!key->name || !(said & config_key_bit(key)))
                        continue;
                if (!(key->flags & CONFIG_SEPARATE)) {
                        config_move(key, from, to);
                        continue;
                }
                for (const struct config_key *inner = NULL;
                     (inner = config_next_key(key->inside, inner));)
                        if (said & config_key_bit(inner))
                                config_move(inner, config_member(key, from),
                                            config_member(key, to));
        }
        to->said |= from->said;
}

/* The rules of all files count, in the order of the files. */
static int put_rules_before(struct config_profile *file, struct config_profile *earlier)
{
        int r = file->rules ? config_put_before(&file->rules, &earlier->rules) : 0;

        return r >= 0 && file->rule_tests
                       ? config_put_before(&file->rule_tests, &earlier->rule_tests)
                       : r;
}

static int merge_profiles(struct config *config, struct config *file)
{
        if (put_rules_before(&file->top, &config->top) < 0)
                return -ENOMEM;
        overlay(&config->top, &file->top);
        for (size_t i = 0; i < file->n_profiles; i++) {
                struct config_profile *to = config_profile_named(config, file->profiles[i].name);
                if (!to)
                        return errno == E2BIG ? -E2BIG : -ENOMEM;
                if (put_rules_before(&file->profiles[i], to) < 0)
                        return -ENOMEM;
                overlay(to, &file->profiles[i]);
        }
        return 0;
}

/* The parts of "as" that a file has replace those of earlier ones. An entry takes the place of a table's. */
static void merge_table(struct config *config, struct config *file)
{
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_AS, key));)
                if (key->kind == CONFIG_BOOL)
                        config->as.also |= file->as.also;
                else if (key->kind != CONFIG_OBJECT && key->kind != CONFIG_NOTHING &&
                         *(void **)config_member(key, &file->as))
                        config_move(key, &file->as, &config->as);
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_AS_SERVER, key));)
                if (*(void **)config_member(key, &file->as))
                        config_move(key, &file->as, &config->as);
        for (size_t i = 0; i < config->n_published; i++)
                for (size_t j = 0; config->published[i].below && j < file->n_published; j++)
                        config->published[i].replaced |= config->published[i].kind ==
                                                                 file->published[j].kind &&
                                                         strcmp(config->published[i].name,
                                                                file->published[j].name) == 0;
}

static int merge(struct config *config, struct config *file)
{
        int r = merge_profiles(config, file);

        if (r < 0)
                return r;
        merge_table(config, file);
        config_merge_node(config, file);
        if (config_append_items(&config->servers, &config->n_servers, &file->servers,
                                &file->n_servers, sizeof(struct config_server)) < 0 ||
            config_append_items(&config->published, &config->n_published, &file->published,
                                &file->n_published, sizeof(struct config_published)) < 0 ||
            config_append_items(&config->warnings, &config->n_warnings, &file->warnings,
                                &file->n_warnings, sizeof(char *)) < 0 ||
            config_append_items(&config->pending, &config->n_pending, &file->pending,
                                &file->n_pending, sizeof(struct config_reference)) < 0)
                return -ENOMEM;
        for (const struct config_key *key = NULL; (key = config_next_own_key(key));)
                if (is_plain(key) || (key->place == CONFIG_TOP && config_is_text(key) &&
                                      *(char **)config_member(key, file)))
                        config_move(key, file, config);
        return 0;
}

/* A text that is not JSON. */
static int refuse(struct config *config, const char *name, const struct error *why,
                  struct error *err)
{
        struct error told = *why;

        error_context(&told, "%s", name);
        return config_report(config, true, told.text) ? 0
                                                      : error_set(err, why->code, "%s", told.text);
}

/* The log has one line for each setting that says what it means here. */
static int add_notes(struct config *config)
{
        int r = 0;

        for (char **note = config->as.notes; r >= 0 && note && *note; note++) {
                char *text = NULL;
                int n = asprintf(&text, "--as %s: %s", config->as.name ? config->as.name : "",
                                 *note);
                r = config_add_warning(config, n < 0 ? NULL : text);
        }
        return r;
}

int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err)
{
        return config_add_layer(config, CONFIG_LAYER_USER, name, data, n, err);
}

int config_add_layer(struct config *config, enum config_layer layer, const char *name,
                     const char *data, size_t n, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        _cleanup_(cleanup_config_free) struct config *file = new_from(config);
        struct config_reader reader = {
                .layer = layer, .before = config, .into = file, .file = name, .err = err};
        struct error why = {};

        if (!file)
                return error_errno(err, ENOMEM, "%s", name);
        if (n > CONFIG_FILE_SIZE_MAX)
                return error_set(err, EFBIG, "%s: larger than 1 MiB", name);
        int r = json_parse_config(data, n, &doc, &why);
        if (r < 0)
                return refuse(config, name, &why, err);
        config_lines_init(&reader.lines, data, n, yyjson_doc_get_root(doc));
        r = read_file(&reader, yyjson_doc_get_root(doc));
        if (r >= 0)
                r = config_count_warnings(&reader);
        if (r >= 0 && layer == CONFIG_LAYER_SETTINGS)
                r = config_bound(config, file, name, err);
        if (r < 0)
                return r;
        if (layer == CONFIG_LAYER_USER) {
                config->said |= file->said;
                config->said_profile |= file->top.said;
        }
        r = merge(config, file);
        if (r == -E2BIG)
                return error_set(err, E2BIG, "%s: more than %d profiles in all", name,
                                 CONFIG_PROFILES_MAX);
        if (r >= 0 && layer == CONFIG_LAYER_SETTINGS)
                r = add_notes(config);
        return r < 0 ? error_errno(err, -r, "%s", name) : 0;
}

int config_set_code(struct config *config, size_t index, const char *code, size_t n,
                    struct error *err)
{
        struct config_published *p = index < config->n_published ? &config->published[index] : NULL;

        if (!p || !p->file)
                return error_set(err, EPROTO, "code for no published entry");
        if (n > CONFIG_CODE_MAX || (n > 0 && memchr(code, '\0', n)))
                return error_set(
                        err, EINVAL,
                        "publish: %s \"%s\": %s: code of more than 256 KiB, or with NUL characters",
                        config_published_kind_name(p->kind), p->name, p->file);
        free(p->code);
        p->code = strndup(n > 0 ? code : "", n);
        return p->code ? 0 : error_errno(err, ENOMEM, "publish");
}

/* ---- the whole ---- */

/* Moves "default" to the front; creates it if no file defines it. */
static int put_default_first(struct config *config)
{
        if (!config_profile_named(config, CONFIG_PROFILE_DEFAULT))
                return -ENOMEM;
        size_t i = config_profile_index(config, CONFIG_PROFILE_DEFAULT);
        struct config_profile first = config->profiles[i];

        memmove(&config->profiles[1], &config->profiles[0], i * sizeof(first));
        config->profiles[0] = first;
        return 0;
}

/* Turns off the keys that only an interpreter of Python has. */
static void limit_to_language(struct config_profile *profile)
{
        if (profile->language != LANGUAGE_JAVASCRIPT)
                return;
        profile->survives = false;
        profile->checkpoints = 0;
}

void config_set_language(struct config *config, const char *profile, enum language language)
{
        size_t i = profile ? config_profile_index(config, profile) : config->profile;

        /* Who uses a profile that is missing reports it. */
        if (i >= config->n_profiles || config->profiles[i].language == language)
                return;
        config->profiles[i].language = language;
        free(take_ptr(config->profiles[i].image));
        limit_to_language(&config->profiles[i]);
}

static int complete(struct config_profile *profile, const struct config_profile *top)
{
        struct config_profile whole = {};

        int r = config_copy(CONFIG_PROFILE, top, &whole);
        if (r < 0)
                return r;
        whole.said = 0;
        /* Its own rules come before those of the top level. */
        if (profile->rules) {
                r = config_put_before(&whole.rules, &profile->rules);
                profile->rules = take_ptr(whole.rules);
        }
        if (r < 0) {
                config_done(CONFIG_PROFILE, &whole);
                return r;
        }
        overlay(&whole, profile);
        free(whole.name);
        whole.name = take_ptr(profile->name);
        limit_to_language(&whole);
        config_done(CONFIG_PROFILE, profile);
        *profile = whole;
        return 0;
}

static int check_server(struct config *config, const struct config_reference *reference)
{
        const char *names[CONFIG_SERVERS_MAX + 1] = {};
        char *text = NULL;

        for (size_t i = 0; i < config->n_servers; i++) {
                names[i] = config->servers[i].name;
                if (strcmp(names[i], reference->to) == 0)
                        return 0;
        }
        const char *meant = did_you_mean(reference->to, names), *from = reference->from;
        int r = asprintf(&text, "%s: %s%s%sthere is no server \"%s\"%s%s%s", reference->place,
                         from ? "profile \"" : "", from ? from : "", from ? "\": " : "",
                         reference->to, meant ? "; did you mean \"" : "", meant ? meant : "",
                         meant ? "\"?" : "");
        return config_add_warning(config, r < 0 ? NULL : text);
}

/* A mistake in a file: collected, or the error. */
static int report(struct config *config, const struct error *why, struct error *err)
{
        return config_report(config, true, why->text) ? 0 : error_set(err, EINVAL, "%s", why->text);
}

static int check_sum_of(struct config *config, const struct config_reference *reference,
                        struct error *err)
{
        bool is_memory = strcmp(reference->to, "memory_total") == 0;
        struct error why = {};

        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                if (is_memory ? p->limits.memory <= config->memory_total
                              : p->limits.cpu_milli <= config->cpu_total_milli)
                        continue;
                error_set(
                        &why, EINVAL,
                        "%s: %s is below what one session of profile \"%s\" may use (limits.%.*s)",
                        reference->place, reference->to, p->name, (int)strcspn(reference->to, "_"),
                        reference->to);
                return report(config, &why, err);
        }
        return 0;
}

static int resolve(struct config *config, const struct config_reference *reference,
                   struct error *err)
{
        if (reference->kind == CONFIG_SERVER_OF_PROFILE)
                return check_server(config, reference);
        if (reference->kind == CONFIG_SUM_OF_SESSIONS)
                return check_sum_of(config, reference, err);
        struct error why = {};
        int profile = config_find_profile(config, reference->to, &why);
        if (profile < 0) {
                error_context(&why, "%s", reference->place);
                return report(config, &why, err);
        }
        const char *language = language_names[config->profiles[profile].language];
        if (reference->kind == CONFIG_PROFILE_OF_PUBLISHED && reference->from &&
            strcmp(reference->from, language) != 0) {
                error_set(&why, EINVAL, "%s: this code is %s, and profile \"%s\" is for %s",
                          reference->place, reference->from, reference->to, language);
                return report(config, &why, err);
        }
        if (reference->kind == CONFIG_PROFILE_OF_CLIENT)
                return config_set_client(config, reference->from, (size_t)profile);
        if (reference->kind == CONFIG_PROFILE_OF_ALL)
                config->profile = (size_t)profile;
        return 0;
}

int config_finish(struct config *config, struct error *err)
{
        int r = put_default_first(config);

        for (size_t i = 0; r >= 0 && i < config->n_profiles; i++)
                r = complete(&config->profiles[i], &config->top);
        for (size_t i = 0; r >= 0 && i < config->n_pending; i++)
                r = resolve(config, &config->pending[i], err);
        config_forget_references(config);
        if (r >= 0)
                r = config_compile_rules(config, err);
        if (r >= 0)
                r = config_check_variables(config, err);
        if (r >= 0)
                r = config_check_secret_hosts(config, err);
        if (r >= 0)
                r = config_check_asks(config, err);
        return r == -ENOMEM && !error_is_set(err) ? error_errno(err, ENOMEM, "config") : r;
}

/* ---- mounts of an option ---- */

static int check_apart(const struct config_profile *p, const struct config_mount *mount,
                       const char *name, struct error *err)
{
        for (size_t i = 0; i < p->n_mounts; i++) {
                const char *other = p->mounts[i].target;
                if (is_within(other, mount->target) || is_within(mount->target, other))
                        return error_set(
                                err, EINVAL,
                                "%s: the targets %s and %s (of the config) are the same, or one is inside the other",
                                name, mount->target, other);
        }
        return 0;
}

static int move_mounts(struct config_profile *to, struct config_profile *from, const char *name,
                       struct error *err)
{
        for (size_t i = 0; i < from->n_mounts; i++) {
                int r = check_apart(to, &from->mounts[i], name, err);
                if (r < 0)
                        return r;
        }
        if (to->n_mounts + from->n_mounts > CONFIG_MOUNTS_MAX)
                return error_set(err, E2BIG, "%s: with those of the config more than %d mounts",
                                 name, CONFIG_MOUNTS_MAX);
        int r = config_append_items(&to->mounts, &to->n_mounts, &from->mounts, &from->n_mounts,
                                    sizeof(struct config_mount));
        return r < 0 ? error_errno(err, ENOMEM, "%s", name) : 0;
}

int config_add_mounts(struct config *config, const char *profile, const char *name,
                      const char *text, struct error *err)
{
        _cleanup_(cleanup_config_free) struct config *other = config_new();
        size_t i = profile ? config_profile_index(config, profile) : config->profile;

        int r = other ? config_add(other, name, text, strlen(text), err)
                      : error_errno(err, ENOMEM, "%s", name);
        /* Who uses a profile that is missing reports it. */
        if (r >= 0 && i < config->n_profiles)
                r = move_mounts(&config->profiles[i], &other->top, name, err);
        return r;
}
