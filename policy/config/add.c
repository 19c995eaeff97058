/*
 * Files become a config.
 *
 * While files are read, a profile has only the keys that the config sets for it, and a bit for each
 * of them; keys of a later file replace those of an earlier one. config_finish() completes each
 * profile: it copies the top level and then overwrites the keys that the profile sets.
 */
#include "policy/config/add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/keys.h"
#include "policy/config/profile-keys.h"
#include "policy/config/publish.h"
#include "policy/config/server-keys.h"
#include "policy/did-you-mean.h"
#include "policy/image.h"

#define CONFIG_PROFILE_DEFAULT "default"

DEFINE_CLEANUP(struct config *, config_free)

enum { WHERE_MAX = 256 };

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

static int read_nothing(struct config_reading *r, const struct config_key *key, yyjson_val *value)
{
        return 0;
}

static config_code_fn *const codes[CONFIG_CODES] = {
#define ROW(code, function) [CODE_##code] = (function),
#include "policy/config/codes.def"
#undef ROW
};

/* ---- a file ---- */

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
        int e = config_read_members(&r, CONFIG_TOP, root);
        if (e >= 0 && into->cell_timeout_ms > into->cell_timeout_max_ms)
                return config_wrong(reader, yyjson_obj_get(root, "timeout"),
                                    "timeout is %g s, above timeout_max, which is %g s: set both",
                                    into->cell_timeout_ms / 1000.0,
                                    into->cell_timeout_max_ms / 1000.0);
        return e;
}

static bool is_plain(const struct config_key *key)
{
        return key->place == CONFIG_TOP && config_is_number(key);
}

/* Makes the config of one file, which begins with the numbers of the earlier files. */
static struct config *new_from(const struct config *before)
{
        struct config *config = config_new();

        if (!config)
                return NULL;
        config->findings = before->findings;
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));)
                if (is_plain(key))
                        config_set_number(key, config, config_number(key, before));
        return config;
}

/* Moves the keys that one of them sets to the other. */
static void overlay(struct config_profile *to, struct config_profile *from)
{
        /* A profile that sets an interpreter uses that interpreter's default image. */
        enum config_form form;
        uint64_t said = from->said;

        if (said & config_key_bit(config_find_key(CONFIG_PROFILE, "python", &form)))
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

static int merge_profiles(struct config *config, struct config *file)
{
        overlay(&config->top, &file->top);
        for (size_t i = 0; i < file->n_profiles; i++) {
                struct config_profile *to = config_profile_named(config, file->profiles[i].name);
                if (!to)
                        return errno == E2BIG ? -E2BIG : -ENOMEM;
                overlay(to, &file->profiles[i]);
        }
        return 0;
}

static int merge(struct config *config, struct config *file)
{
        int r = merge_profiles(config, file);

        if (r < 0)
                return r;
        if (config_append_items(&config->servers, &config->n_servers, &file->servers,
                                &file->n_servers, sizeof(struct config_server)) < 0 ||
            config_append_items(&config->published, &config->n_published, &file->published,
                                &file->n_published, sizeof(struct config_published)) < 0 ||
            config_append_items(&config->warnings, &config->n_warnings, &file->warnings,
                                &file->n_warnings, sizeof(char *)) < 0 ||
            config_append_items(&config->pending, &config->n_pending, &file->pending,
                                &file->n_pending, sizeof(struct config_reference)) < 0)
                return -ENOMEM;
        for (const struct config_key *key = NULL; (key = config_next_key(CONFIG_TOP, key));)
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

int config_add(struct config *config, const char *name, const char *data, size_t n,
               struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        _cleanup_(cleanup_config_free) struct config *file = new_from(config);
        struct config_reader reader = {.before = config, .into = file, .file = name, .err = err};
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
        if (r < 0)
                return r;
        r = merge(config, file);
        if (r == -E2BIG)
                return error_set(err, E2BIG, "%s: more than %d profiles in all", name,
                                 CONFIG_PROFILES_MAX);
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

static int complete(struct config_profile *profile, const struct config_profile *top)
{
        struct config_profile whole = {};

        int r = config_copy(CONFIG_PROFILE, top, &whole);
        if (r < 0)
                return r;
        whole.said = 0;
        overlay(&whole, profile);
        free(whole.name);
        whole.name = take_ptr(profile->name);
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
        const char *meant = did_you_mean(reference->to, names);
        int r = meant ? asprintf(
                                &text,
                                "%s: profile \"%s\": there is no server \"%s\"; did you mean \"%s\"?",
                                reference->place, reference->from, reference->to, meant)
                      : asprintf(&text, "%s: profile \"%s\": there is no server \"%s\"",
                                 reference->place, reference->from, reference->to);
        return config_add_warning(config, r < 0 ? NULL : text);
}

static int resolve(struct config *config, const struct config_reference *reference,
                   struct error *err)
{
        if (reference->kind == CONFIG_SERVER_OF_PROFILE)
                return check_server(config, reference);
        struct error why = {};
        int profile = config_find_profile(config, reference->to, &why);
        if (profile < 0) {
                error_context(&why, "%s", reference->place);
                return config_report(config, true, why.text)
                               ? 0
                               : error_set(err, EINVAL, "%s", why.text);
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
        return r == -ENOMEM && !error_is_set(err) ? error_errno(err, ENOMEM, "config") : r;
}

/* ---- mounts of an option ---- */

static int check_apart(const struct config_profile *p, const struct config_mount *mount,
                       const char *name, struct error *err)
{
        for (size_t i = 0; i < p->n_mounts; i++) {
                const char *other = p->mounts[i].target;
                if (config_is_within(other, mount->target) ||
                    config_is_within(mount->target, other))
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
