/*
 * Profiles in memory: how a profile inherits from the top level, and how references to profiles are
 * resolved.
 *
 * While files are read, a profile has only the keys that the config sets for it, and a bit for each
 * of them; keys of a later file replace those of an earlier one. config_finish() completes each
 * profile: it copies the top level and then overwrites the keys that the profile sets.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/config-internal.h"
#include "policy/config/config-profile.h"
#include "policy/did-you-mean.h"

void config_profile_drop_mounts(struct config_profile *p)
{
        for (size_t i = 0; i < p->n_mounts; i++) {
                free(p->mounts[i].source);
                free(p->mounts[i].target);
        }
        free(p->mounts);
        p->mounts = NULL;
        p->n_mounts = 0;
}

void config_profile_done(struct config_profile *p)
{
        config_profile_drop_mounts(p);
        free(p->name);
        free(p->image);
        free(p->python);
        config_list_free(p->preload);
        config_list_free(p->servers);
        config_rules_done(&p->tools);
        config_egress_done(&p->egress);
        config_packages_done(&p->packages);
        *p = (struct config_profile){};
}

static int copy_text(char **to, const char *from)
{
        return from ? config_set_text(to, from) : 0;
}

static int copy_mounts(const struct config_profile *from, struct config_profile *to)
{
        to->mounts = from->n_mounts ? calloc(from->n_mounts, sizeof(*to->mounts)) : NULL;
        if (from->n_mounts && !to->mounts)
                return -ENOMEM;
        for (; to->n_mounts < from->n_mounts; to->n_mounts++) {
                const struct config_mount *mount = &from->mounts[to->n_mounts];
                struct config_mount copy = {.source = strdup(mount->source),
                                            .target = strdup(mount->target),
                                            .writable = mount->writable};
                if (!copy.source || !copy.target) {
                        free(copy.source);
                        free(copy.target);
                        return -ENOMEM;
                }
                to->mounts[to->n_mounts] = copy;
        }
        return 0;
}

int config_profile_copy(const struct config_profile *from, struct config_profile *ret)
{
        struct config_profile p = {.limits = from->limits,
                                   .network = from->network,
                                   .egress = {NULL, from->egress.max_bytes, from->egress.rate},
                                   .pool = from->pool,
                                   .freeze_ms = from->freeze_ms,
                                   .survives = from->survives,
                                   .checkpoints = from->checkpoints,
                                   .agent = from->agent,
                                   .said = from->said};

        if (copy_text(&p.name, from->name) < 0 || copy_text(&p.image, from->image) < 0 ||
            copy_text(&p.python, from->python) < 0 || copy_mounts(from, &p) < 0 ||
            config_list_copy(&p.preload, from->preload) < 0 ||
            config_list_copy(&p.egress.allow, from->egress.allow) < 0 ||
            config_list_copy(&p.servers, from->servers) < 0 ||
            config_list_copy(&p.tools.allow, from->tools.allow) < 0 ||
            config_list_copy(&p.tools.deny, from->tools.deny) < 0 ||
            config_packages_copy(&from->packages, &p.packages) < 0) {
                config_profile_done(&p);
                return -ENOMEM;
        }
        *ret = p;
        return 0;
}

static void move_text(char **to, char **from)
{
        free(*to);
        *to = take_ptr(*from);
}

static void move_list(char ***to, char ***from)
{
        config_list_free(*to);
        *to = take_ptr(*from);
}

static void overlay_limits(struct config_profile *to, const struct config_profile *from)
{
        for (size_t i = 0; i < CONFIG_LIMITS; i++) {
                size_t offset = config_limit_keys[i].offset;
                if (from->said & SAID_LIMIT(i))
                        memcpy((char *)to + offset, (const char *)from + offset,
                               config_limit_keys[i].kind == CONFIG_BYTES ? sizeof(uint64_t)
                                                                         : sizeof(uint32_t));
        }
}

void config_profile_overlay(struct config_profile *to, struct config_profile *from)
{
        /* A profile that sets an interpreter uses that interpreter's default image. */
        if (from->said & (SAID_IMAGE | SAID_PYTHON))
                move_text(&to->image, &from->image);
        if (from->said & SAID_PYTHON)
                move_text(&to->python, &from->python);
        if (from->said & SAID_NETWORK) {
                to->network = from->network;
                config_egress_done(&to->egress);
                to->egress = from->egress;
                from->egress = (struct config_egress){};
        }
        if (from->said & SAID_MOUNTS) {
                config_profile_drop_mounts(to);
                to->mounts = take_ptr(from->mounts);
                to->n_mounts = from->n_mounts;
                from->n_mounts = 0;
        }
        if (from->said & SAID_PRELOAD)
                move_list(&to->preload, &from->preload);
        if (from->said & SAID_SERVERS)
                move_list(&to->servers, &from->servers);
        if (from->said & SAID_TOOLS) {
                config_rules_done(&to->tools);
                to->tools = from->tools;
                from->tools = (struct config_tool_rules){};
        }
        if (from->said & SAID_PACKAGES) {
                config_packages_done(&to->packages);
                to->packages = from->packages;
                from->packages = (struct config_packages){};
        }
        if (from->said & SAID_POOL)
                to->pool = from->pool;
        if (from->said & SAID_FREEZE)
                to->freeze_ms = from->freeze_ms;
        if (from->said & SAID_STATE) {
                to->survives = from->survives;
                to->checkpoints = from->checkpoints;
        }
        if (from->said & SAID_AGENT)
                to->agent = from->agent;
        overlay_limits(to, from);
        to->said |= from->said;
}

size_t config_profile_index(const struct config *config, const char *name)
{
        for (size_t i = 0; i < config->n_profiles; i++)
                if (strcmp(config->profiles[i].name, name) == 0)
                        return i;
        return SIZE_MAX;
}

struct config_profile *config_profile_named(struct config *config, const char *name)
{
        size_t i = config_profile_index(config, name);

        if (i != SIZE_MAX)
                return &config->profiles[i];
        /* One place is reserved for "default", which is in every config. */
        bool has_default = config_profile_index(config, CONFIG_PROFILE_DEFAULT) != SIZE_MAX ||
                           strcmp(name, CONFIG_PROFILE_DEFAULT) == 0;
        if (config->n_profiles == CONFIG_PROFILES_MAX - (has_default ? 0 : 1)) {
                errno = E2BIG;
                return NULL;
        }
        struct config_profile *grown = reallocarray(config->profiles, config->n_profiles + 1,
                                                    sizeof(*grown));
        if (!grown)
                return NULL;
        config->profiles = grown;
        grown[config->n_profiles] = (struct config_profile){.name = strdup(name)};
        return grown[config->n_profiles].name ? &grown[config->n_profiles++] : NULL;
}

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

/* Creates a profile from the top level. */
static int make_base(struct config *config, struct config_profile *ret)
{
        struct config_profile base = {};

        int r = config_profile_copy(&config->top, &base);
        if (r < 0)
                return r;
        base.said = 0;
        *ret = base;
        return 0;
}

static int make_whole(struct config_profile *profile, const struct config_profile *base)
{
        struct config_profile whole = {};

        int r = config_profile_copy(base, &whole);
        if (r < 0)
                return r;
        config_profile_overlay(&whole, profile);
        whole.name = take_ptr(profile->name);
        config_profile_done(profile);
        *profile = whole;
        return 0;
}

static const char *nearest_profile(const struct config *config, const char *name)
{
        const char *names[CONFIG_PROFILES_MAX + 1] = {};

        for (size_t i = 0; i < config->n_profiles; i++)
                names[i] = config->profiles[i].name;
        return did_you_mean(name, names);
}

int config_find_profile(const struct config *config, const char *name, struct error *err)
{
        size_t i = config_profile_index(config, name);

        if (i != SIZE_MAX)
                return (int)i;
        const char *meant = nearest_profile(config, name);
        if (meant)
                return error_set(err, ENOENT, "there is no profile \"%s\"; did you mean \"%s\"?",
                                 name, meant);
        return error_set(err, ENOENT, "there is no profile \"%s\" in the config", name);
}

size_t config_profile_of_client(const struct config *config, const char *client)
{
        for (size_t i = 0; client && i < config->n_clients; i++)
                if (strcmp(config->clients[i].name, client) == 0)
                        return config->clients[i].profile;
        return config->profile;
}

static int add_client(struct config *config, const char *name, size_t profile)
{
        for (size_t i = 0; i < config->n_clients; i++) {
                if (strcmp(config->clients[i].name, name) == 0) {
                        config->clients[i].profile = profile;
                        return 0;
                }
        }
        struct config_client *grown = reallocarray(config->clients, config->n_clients + 1,
                                                   sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        config->clients = grown;
        grown[config->n_clients] = (struct config_client){strdup(name), profile};
        return grown[config->n_clients].name ? (config->n_clients++, 0) : -ENOMEM;
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
                if (config_report(config, true, why.text))
                        return 0;
        }
        if (profile < 0)
                return error_set(err, EINVAL, "%s", why.text);
        if (reference->kind == CONFIG_PROFILE_OF_CLIENT)
                return add_client(config, reference->from, (size_t)profile);
        if (reference->kind == CONFIG_PROFILE_OF_ALL)
                config->profile = (size_t)profile;
        return 0;
}

int config_finish(struct config *config, struct error *err)
{
        struct config_profile base = {};
        struct config_pending *pending = config->pending;

        int r = put_default_first(config);
        if (r >= 0)
                r = make_base(config, &base);
        for (size_t i = 0; r >= 0 && i < config->n_profiles; i++)
                r = make_whole(&config->profiles[i], &base);
        for (size_t i = 0; r >= 0 && pending && i < pending->n; i++)
                r = resolve(config, &pending->references[i], err);
        config_profile_done(&base);
        config->pending = config_pending_free(config->pending);
        return r == -ENOMEM && !error_is_set(err) ? error_errno(err, ENOMEM, "config") : r;
}

static bool is_within(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

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
        size_t n = to->n_mounts + from->n_mounts;

        for (size_t i = 0; i < from->n_mounts; i++) {
                int r = check_apart(to, &from->mounts[i], name, err);
                if (r < 0)
                        return r;
        }
        if (n > CONFIG_MOUNTS_MAX)
                return error_set(err, E2BIG, "%s: with those of the config more than %d mounts",
                                 name, CONFIG_MOUNTS_MAX);
        struct config_mount *grown = reallocarray(to->mounts, n + 1, sizeof(*grown));
        if (!grown)
                return error_errno(err, ENOMEM, "%s", name);
        if (from->n_mounts > 0)
                memcpy(grown + to->n_mounts, from->mounts, from->n_mounts * sizeof(*grown));
        to->mounts = grown;
        to->n_mounts = n;
        from->n_mounts = 0;
        return 0;
}

int config_add_mounts(struct config *config, const char *profile, const char *name,
                      const char *text, struct error *err)
{
        struct config *other = config_new();
        size_t i = profile ? config_profile_index(config, profile) : config->profile;

        int r = other ? config_add(other, name, text, strlen(text), err)
                      : error_errno(err, ENOMEM, "%s", name);
        /* Whoever uses a profile that is missing says so. */
        if (r >= 0 && i < config->n_profiles)
                r = move_mounts(&config->profiles[i], &other->top, name, err);
        config_free(other);
        return r;
}

int config_refer(struct config_reader *reader, enum config_reference_kind kind, const char *from,
                 const char *to, yyjson_val *at)
{
        struct config_pending *p = reader->into->pending;

        if (!p)
                p = reader->into->pending = calloc(1, sizeof(*p));
        struct config_reference *grown = p ? reallocarray(p->references, p->n + 1, sizeof(*grown))
                                           : NULL;
        if (!grown)
                return config_no_memory(reader);
        p->references = grown;
        grown[p->n] = (struct config_reference){
                .kind = kind,
                .from = from ? strdup(from) : NULL,
                .to = strdup(to),
                .place = config_place(reader, at),
        };
        struct config_reference *new = &grown[p->n++];
        return !new->to || !new->place || (from && !new->from) ? config_no_memory(reader) : 0;
}

int config_pending_merge(struct config *config, struct config *file)
{
        if (!file->pending)
                return 0;
        if (!config->pending) {
                config->pending = take_ptr(file->pending);
                return 0;
        }
        return config_append_items(&config->pending->references, &config->pending->n,
                                   &file->pending->references, &file->pending->n,
                                   sizeof(struct config_reference));
}

struct config_pending *config_pending_free(struct config_pending *pending)
{
        if (!pending)
                return NULL;
        for (size_t i = 0; i < pending->n; i++) {
                free(pending->references[i].from);
                free(pending->references[i].to);
                free(pending->references[i].place);
        }
        free(pending->references);
        free(pending);
        return NULL;
}
