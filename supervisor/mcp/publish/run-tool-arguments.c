/* Takes the arguments of a tool that runs the code it is given. */
#include "supervisor/mcp/publish/run-tool-arguments.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "policy/schema-check.h"
#include "supervisor/session/cell/cell.h"

enum {
        NEEDS_MAX = 100,
        NEED_BYTES_MAX = 400,
        SERVERS_MAX = 100,
        TIMEOUT_LEAST_MS = 100,
        LANGUAGES_TEXT_MAX = 512
};

/* An argument of a name that may be NULL; null counts as absent. */
static yyjson_val *argument(yyjson_val *arguments, const char *name)
{
        yyjson_val *value = name ? yyjson_obj_get(arguments, name) : NULL;

        return yyjson_is_null(value) ? NULL : value;
}

static int take_code(yyjson_val *value, const char *name, struct run_tool_arguments *ret,
                     struct error *err)
{
        if (!yyjson_is_str(value))
                return error_set(err, EINVAL, "%s is required: a string with the code", name);
        if (yyjson_get_len(value) > CELL_CODE_MAX)
                return error_set(err, EINVAL, "%s has %zu bytes: at most %d are taken", name,
                                 yyjson_get_len(value), CELL_CODE_MAX);
        ret->code = yyjson_get_str(value);
        ret->code_length = yyjson_get_len(value);
        return 0;
}

/* The profile whose "program" runs this language, or NULL. */
static const struct config_profile *find_program(const struct config *config, const char *name)
{
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *p = &config->profiles[i];
                if (p->program.language && strcmp(p->program.language, name) == 0)
                        return p;
        }
        return NULL;
}

static int refuse_language(const struct config *config, const char *name, struct error *err)
{
        char known[LANGUAGES_TEXT_MAX] = "";
        size_t used = 0;

        for (int i = 0; i < LANGUAGE_MAX; i++)
                used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                         i > 0 ? ", " : "", language_names[i]);
        for (size_t i = 0; i < config->n_profiles && used < sizeof(known); i++)
                if (config->profiles[i].program.language)
                        used += (size_t)snprintf(known + used, sizeof(known) - used, ", %s",
                                                 config->profiles[i].program.language);
        return error_set(err, EINVAL, "the language \"%.40s\" is not available: this server has %s",
                         name, known);
}

static int take_language(yyjson_val *value, const struct config *config,
                         const struct config_run *run, struct run_tool_arguments *ret,
                         struct error *err)
{
        enum language usual = run->guest == GUEST_PYODIDE ? LANGUAGE_JAVASCRIPT : LANGUAGE_PYTHON;
        const char *name = run->language ? run->language : language_names[usual];

        if (value &&
            (!yyjson_is_str(value) || strlen(yyjson_get_str(value)) != yyjson_get_len(value)))
                return error_set(err, EINVAL, "%s must be a string", run->language_argument);
        if (value)
                name = yyjson_get_str(value);
        int language = language_parse(name);
        if (language < 0) {
                /* Python starts the programs. */
                language = LANGUAGE_PYTHON;
                ret->program = find_program(config, name);
                if (!ret->program)
                        return refuse_language(config, name, err);
        }
        ret->language = (enum language)language;
        return 0;
}

/* A timeout within the tool's bounds and the config's longest time. */
static uint32_t clamp(double seconds, const struct config_run_timeout *t, uint32_t most_ms)
{
        double ms = ceil(seconds * 1000), least = t->least_ms > 0 ? t->least_ms : TIMEOUT_LEAST_MS;

        if (t->most_ms > 0 && t->most_ms < most_ms)
                most_ms = t->most_ms;
        if (ms < least)
                ms = least;
        return ms < most_ms ? (uint32_t)ms : most_ms;
}

static int take_timeout(yyjson_val *value, const struct config *config,
                        const struct config_run_timeout *t, struct run_tool_arguments *ret,
                        struct error *err)
{
        double seconds = 0;

        if (!value)
                return 0;
        if (json_double(value, &seconds) < 0 || !isfinite(seconds))
                return error_set(err, EINVAL, "%s must be a number of seconds", t->argument);
        ret->timeout_ms = clamp(seconds, t, config->cell_timeout_max_ms);
        return 0;
}

/* A list of short strings. */
static int check_list(yyjson_val *list, const char *name, size_t most, const char *what,
                      struct error *err)
{
        yyjson_val *one;
        size_t i, n;

        if (list && (!yyjson_is_arr(list) || yyjson_arr_size(list) > most))
                return error_set(err, EINVAL, "%s must be an array of at most %zu strings", name,
                                 most);
        yyjson_arr_foreach (list, i, n, one) {
                if (!yyjson_is_str(one) || yyjson_get_len(one) > NEED_BYTES_MAX)
                        return error_set(err, EINVAL, "%s: item %zu must be %s", name, i + 1, what);
        }
        return 0;
}

static bool has_server(const struct config *config, const struct config_profile *profile,
                       const char *name)
{
        bool allowed = !profile || !profile->servers;

        for (char *const *one = profile ? profile->servers : NULL; one && *one && !allowed; one++)
                allowed = strcmp(*one, name) == 0;
        for (size_t i = 0; allowed && i < config->n_servers; i++)
                if (!config->servers[i].disabled && strcmp(config->servers[i].name, name) == 0)
                        return true;
        return false;
}

static const char *find_unknown_server(yyjson_val *list, const struct config *config,
                                       const struct config_profile *profile)
{
        yyjson_val *one;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, one) {
                if (!has_server(config, profile, yyjson_get_str(one)))
                        return yyjson_get_str(one);
        }
        return NULL;
}

int run_tool_arguments_take(yyjson_val *arguments, const struct config *config,
                            const struct config_published *tool, struct run_tool_arguments *ret,
                            struct error *err)
{
        const struct config_run *run = &tool->run;
        uint32_t initial = run->timeout.initial_ms > 0 ? run->timeout.initial_ms
                                                       : config->cell_timeout_ms;
        _cleanup_json_ yyjson_doc *schema = NULL;

        *ret = (struct run_tool_arguments){
                .timeout_ms = clamp(initial / 1e3, &run->timeout, config->cell_timeout_max_ms),
                .needs = argument(arguments, run->packages),
                .servers = argument(arguments, run->servers),
        };
        if (arguments && !yyjson_is_null(arguments) && !yyjson_is_obj(arguments))
                return error_set(err, EINVAL, "arguments must be an object");
        int r = json_parse(tool->input_schema, strlen(tool->input_schema), &schema, err);
        if (r >= 0 && yyjson_is_obj(arguments))
                r = schema_check_arguments(arguments, yyjson_doc_get_root(schema), err);
        if (r >= 0)
                r = take_code(argument(arguments, run->code), run->code, ret, err);
        if (r >= 0)
                r = take_language(argument(arguments, run->language_argument), config, run, ret,
                                  err);
        if (r >= 0)
                r = take_timeout(argument(arguments, run->timeout.argument), config, &run->timeout,
                                 ret, err);
        if (r >= 0)
                r = check_list(ret->needs, run->packages, NEEDS_MAX,
                               "a requirement such as \"numpy>=2\"", err);
        if (r >= 0)
                r = check_list(ret->servers, run->servers, SERVERS_MAX, "the name of a server",
                               err);
        if (r < 0)
                return r;
        if (yyjson_arr_size(ret->needs) == 0)
                ret->needs = NULL;
        if (ret->needs && ret->program)
                return error_set(
                        err, EINVAL,
                        "%s: packages can be installed for python only: %s has those of its image \"%s\"",
                        run->packages, ret->program->program.language,
                        ret->program->image ? ret->program->image : "default");
        return 0;
}

int run_tool_arguments_find_servers(struct run_tool_arguments *a, const struct config *config,
                                    const struct config_profile *profile, struct error *err)
{
        a->server = find_unknown_server(a->servers, config, profile);
        return a->server ? error_set(err, EINVAL, "there is no server \"%.60s\"", a->server) : 0;
}
