/* The config: its memory, and how a file becomes part of it. */
#include "policy/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "policy/config/config-internal.h"

enum { SECOND = 1000 };

DEFINE_CLEANUP(struct config *, config_free)

struct config *config_new(void)
{
        struct config *config = calloc(1, sizeof(*config));
        if (!config)
                return NULL;
        config->references = 1;
        limits_default(&config->limits);
        config->top.limits = config->limits;
        config->top.pool = (struct config_pool){CONFIG_POOL_MIN_DEFAULT, CONFIG_POOL_MAX_DEFAULT};
        config->top.survives = true;
        config_packages_init(&config->top.packages);
        config->top.checkpoints = CONFIG_CHECKPOINTS;
        config->log_level = -1;
        config->cell_timeout_ms = 120 * SECOND;
        config->cell_timeout_max_ms = 600 * SECOND;
        config->session_idle_ms = 30 * 60 * SECOND;
        config->output_characters = 10000;
        return config;
}

struct config *config_free(struct config *config)
{
        if (!config || --config->references > 0)
                return NULL;
        for (size_t i = 0; i < config->n_servers; i++)
                config_server_done(&config->servers[i]);
        for (size_t i = 0; i < config->n_warnings; i++)
                free(config->warnings[i]);
        for (size_t i = 0; i < config->n_profiles; i++)
                config_profile_done(&config->profiles[i]);
        for (size_t i = 0; i < config->n_clients; i++)
                free(config->clients[i].name);
        for (size_t i = 0; i < config->n_published; i++)
                config_published_done(&config->published[i]);
        config_profile_done(&config->top);
        config_pending_free(config->pending);
        free(config->profiles);
        free(config->clients);
        free(config->published);
        free(config->servers);
        free(config->warnings);
        free(config->image);
        free(config->python);
        free(config->user);
        free(config);
        return NULL;
}

struct config *config_ref(const struct config *config)
{
        struct config *counted = (struct config *)(uintptr_t)config;

        counted->references++;
        return counted;
}

/* A file as a config of its own, with the numbers of the earlier ones to start from. */
static struct config *new_from(const struct config *before)
{
        struct config *config = config_new();
        if (!config)
                return NULL;
        config->findings = before->findings;
        config->top.limits = before->top.limits;
        config->log_level = before->log_level;
        config->cell_timeout_ms = before->cell_timeout_ms;
        config->cell_timeout_max_ms = before->cell_timeout_max_ms;
        config->session_idle_ms = before->session_idle_ms;
        config->sessions_max = before->sessions_max;
        config->output_characters = before->output_characters;
        config->id_first = before->id_first;
        config->id_count = before->id_count;
        return config;
}

static void move_text(char **to, char **from)
{
        if (!*from)
                return;
        free(*to);
        *to = take_ptr(*from);
}

/* Copies the top-level values of both, so that other code need not read them from the profiles. */
static int tell_top(struct config *config)
{
        config->limits = config->top.limits;
        if (config->top.image && config_set_text(&config->image, config->top.image) < 0)
                return -ENOMEM;
        if (!config->top.image)
                config->image = (free(config->image), NULL);
        return config->top.python ? config_set_text(&config->python, config->top.python) : 0;
}

static int merge_profiles(struct config *config, struct config *file)
{
        config_profile_overlay(&config->top, &file->top);
        for (size_t i = 0; i < file->n_profiles; i++) {
                struct config_profile *to = config_profile_named(config, file->profiles[i].name);
                if (!to)
                        return errno == E2BIG ? -E2BIG : -ENOMEM;
                config_profile_overlay(to, &file->profiles[i]);
        }
        return tell_top(config);
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
            config_pending_merge(config, file) < 0)
                return -ENOMEM;
        move_text(&config->user, &file->user);
        config->log_level = file->log_level;
        config->cell_timeout_ms = file->cell_timeout_ms;
        config->cell_timeout_max_ms = file->cell_timeout_max_ms;
        config->session_idle_ms = file->session_idle_ms;
        config->sessions_max = file->sessions_max;
        config->output_characters = file->output_characters;
        config->id_first = file->id_first;
        config->id_count = file->id_count;
        return 0;
}

/* A text that is no JSON. */
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
        struct config_reader reader = {
                .before = config,
                .into = file,
                .file = name,
                .err = err,
        };

        struct error why = {};

        if (!file)
                return error_errno(err, ENOMEM, "%s", name);
        if (n > CONFIG_FILE_SIZE_MAX)
                return error_set(err, EFBIG, "%s: larger than 1 MiB", name);
        int r = json_parse_config(data, n, &doc, &why);
        if (r < 0)
                return refuse(config, name, &why, err);
        config_lines_init(&reader.lines, data, n, yyjson_doc_get_root(doc));
        r = config_read_root(&reader, yyjson_doc_get_root(doc));
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
