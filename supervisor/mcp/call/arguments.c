/* Parsing the arguments of run_python and run_javascript. */
#include "supervisor/mcp/call/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "supervisor/mcp/profile.h"
#include "supervisor/session/sessions.h"

enum {
        NAME_MAX_SHOWN = 60,
        DEPENDENCIES_MAX = 100,
        DEPENDENCY_BYTES_MAX = 400,
        BRANCHES_OF_CALL_MAX = 1000,
};

static const char *type_name(yyjson_val *value)
{
        if (json_is_number(value))
                return "a number";
        switch (yyjson_get_type(value)) {
        case YYJSON_TYPE_BOOL:
                return "a boolean";
        case YYJSON_TYPE_STR:
                return "a string";
        case YYJSON_TYPE_ARR:
                return "an array";
        case YYJSON_TYPE_OBJ:
                return "an object";
        default:
                return "null";
        }
}

/* A number, also in a string: some clients pass on unchanged what the model wrote. */
static int number_of(yyjson_val *value, double *ret)
{
        const char *text = yyjson_get_str(value);
        char *end;

        if (!text)
                return json_double(value, ret);
        *ret = strtod(text, &end);
        return end == text || *end != '\0' || !isfinite(*ret) ? -EINVAL : 0;
}

/* One argument of a call. */
struct taking {
        const struct argument *argument;
        yyjson_val *value;
        const struct config *config;
        struct run_arguments *ret;
        struct error *err;
};

struct argument {
        const char *name;
        int (*take)(const struct taking *t);
        size_t offset; /* in struct run_arguments: of what a take function for several arguments sets */
        bool is_text, needs_copy; /* needs_copy: of the interpreter */
};

static int take_code(const struct taking *t)
{
        t->ret->code = yyjson_get_str(t->value);
        t->ret->code_length = yyjson_get_len(t->value);
        if (t->ret->code_length > CELL_CODE_MAX)
                return error_set(t->err, EINVAL, "code has %zu bytes: at most %d are taken",
                                 t->ret->code_length, CELL_CODE_MAX);
        return 0;
}

/* Whether the model may choose a profile is checked later. */
static int take_text(const struct taking *t)
{
        *(const char **)((char *)t->ret + t->argument->offset) = yyjson_get_str(t->value);
        return 0;
}

static int check_name(const struct taking *t)
{
        if (session_name_valid(yyjson_get_str(t->value), yyjson_get_len(t->value)))
                return 0;
        return error_set(t->err, EINVAL, "%s must be " SESSION_NAME_RULE, t->argument->name);
}

static int take_name(const struct taking *t)
{
        int r = check_name(t);

        return r < 0 ? r : take_text(t);
}

static int take_session(const struct taking *t)
{
        int r = check_name(t);

        if (r < 0)
                return r;
        memcpy(t->ret->session, yyjson_get_str(t->value), yyjson_get_len(t->value) + 1);
        t->ret->session_given = true;
        return 0;
}

static int take_from(const struct taking *t)
{
        const char *name = yyjson_get_str(t->value);
        size_t n = yyjson_get_len(t->value);
        const char *at = memchr(name, '@', n);
        size_t before = at ? (size_t)(at - name) : n, after = at ? n - before - 1 : 0;

        if (!session_name_valid(name, before) || (at && !session_name_valid(at + 1, after)))
                return error_set(t->err, EINVAL,
                                 "from must be the name of a session, or session@checkpoint");
        memcpy(t->ret->from, name, before);
        t->ret->from[before] = '\0';
        memcpy(t->ret->from_checkpoint, at ? at + 1 : "", after + 1);
        return 0;
}

/* More than the longest time of a cell is never needed. */
static int take_seconds(const struct taking *t, bool may_be_zero, uint32_t *ms)
{
        double most = (double)t->config->cell_timeout_max_ms / 1000, n = 0;
        const char *name = t->argument->name;

        if (number_of(t->value, &n) < 0)
                return error_set(t->err, EINVAL, "%s must be a number of seconds, not %s", name,
                                 type_name(t->value));
        if (!(n >= 0) || (n == 0 && !may_be_zero) || n > most)
                return error_set(
                        t->err, EINVAL,
                        may_be_zero ? "%s must be 0 to %g (seconds), not %g"
                                    : "%s must be more than 0 and at most %g (seconds), not %g",
                        name, most, n);
        *ms = (uint32_t)ceil(n * 1000);
        return 0;
}

static int take_timeout(const struct taking *t)
{
        return take_seconds(t, false, &t->ret->timeout_ms);
}

static int take_wait(const struct taking *t)
{
        t->ret->wait_given = take_seconds(t, true, &t->ret->wait_ms) == 0;
        return t->ret->wait_given ? 0 : -EINVAL;
}

static int take_bool(const struct taking *t)
{
        const char *text = yyjson_get_str(t->value);
        bool *ret = (bool *)((char *)t->ret + t->argument->offset);

        if (yyjson_is_bool(t->value))
                *ret = yyjson_get_bool(t->value);
        else if (text && (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0))
                *ret = strcasecmp(text, "true") == 0;
        else
                return error_set(t->err, EINVAL, "%s must be true or false, not %s",
                                 t->argument->name, type_name(t->value));
        return 0;
}

static int take_on_error(const struct taking *t)
{
        t->ret->rolls_back = yyjson_equals_str(t->value, "rollback");
        if (!t->ret->rolls_back && !yyjson_equals_str(t->value, "keep"))
                return error_set(t->err, EINVAL, "on_error must be \"keep\" or \"rollback\"");
        return 0;
}

static int take_plan(const struct taking *t)
{
        t->ret->plan_only = yyjson_equals_str(t->value, "only");
        t->ret->plan = t->ret->plan_only;
        return t->ret->plan_only ? 0 : take_bool(t);
}

static int take_max_output(const struct taking *t)
{
        double n = 0;

        if (number_of(t->value, &n) < 0 || n != floor(n))
                return error_set(t->err, EINVAL, "max_output must be a whole number of characters");
        if (n < 1 || n > OUTPUT_CHARACTERS_MAX)
                return error_set(t->err, EINVAL,
                                 "max_output must be 1 to %d (characters), not %.0f",
                                 OUTPUT_CHARACTERS_MAX, n);
        t->ret->max_output = (size_t)n;
        return 0;
}

static int take_branches(const struct taking *t)
{
        double n = 0;

        if (number_of(t->value, &n) < 0 || n != floor(n) || n < 1 || n > BRANCHES_OF_CALL_MAX)
                return error_set(t->err, EINVAL, "branches must be a whole number from 1 to %d",
                                 BRANCHES_OF_CALL_MAX);
        t->ret->branches = (unsigned)n;
        return 0;
}

/* Whether they may be installed is known once the session has a profile. */
static int take_dependencies(const struct taking *t)
{
        size_t i, n;
        yyjson_val *one;

        if (!yyjson_is_arr(t->value))
                return error_set(t->err, EINVAL,
                                 "dependencies must be an array of strings such as [\"numpy>=2\"]");
        if (yyjson_arr_size(t->value) > DEPENDENCIES_MAX)
                return error_set(t->err, EINVAL, "dependencies has %zu items: at most %d are taken",
                                 yyjson_arr_size(t->value), DEPENDENCIES_MAX);
        yyjson_arr_foreach (t->value, i, n, one) {
                if (!yyjson_is_str(one) || yyjson_get_len(one) > DEPENDENCY_BYTES_MAX)
                        return error_set(
                                t->err, EINVAL,
                                "dependencies: item %zu must be a requirement such as \"numpy>=2\"",
                                i + 1);
        }
        t->ret->dependencies = n > 0 ? t->value : NULL;
        return 0;
}

#define AT(member) offsetof(struct run_arguments, member)
static const struct argument arguments_known[] = {
        {"code", take_code, .is_text = true},
        {"session", take_session, .is_text = true}, /* early: a refusal names the session */
        {"timeout", take_timeout},
        {"reset", take_bool, AT(reset)},
        {"max_output", take_max_output},
        {"profile", take_text, AT(profile), true},
        {"wait", take_wait},
        {"interrupt", take_bool, AT(interrupt)},
        {"check_only", take_bool, AT(check_only)},
        {"restore", take_name, AT(restore), true, true},
        {"checkpoint", take_name, AT(checkpoint), true, true},
        {"from", take_from, .is_text = true, .needs_copy = true},
        {"branches", take_branches, .needs_copy = true},
        {"on_error", take_on_error, .needs_copy = true},
        {"plan", take_plan, AT(plan), .needs_copy = true},
        {"dependencies", take_dependencies},
};

static int take(const struct taking *t)
{
        if (t->argument->is_text && !yyjson_is_str(t->value))
                return error_set(t->err, EINVAL, "%s must be a string, not %s", t->argument->name,
                                 type_name(t->value));
        return t->argument->take(t);
}

/* Names that the tools of other systems have for the same argument. */
static const char *const other_names[][2] = {
        {"script", "code"},
        {"source", "code"},
        {"python", "code"},
        {"input", "code"},
        {"command", "code"},
        {"session_id", "session"},
        {"session_name", "session"},
        {"timeout_seconds", "timeout"},
        {"timeout_s", "timeout"},
        {"timeout_ms", "timeout"},
        {"restart", "reset"},
        {"wait_seconds", "wait"},
        {"cancel", "interrupt"},
        {"packages", "dependencies"},
        {"libraries", "dependencies"},
        {"requirements", "dependencies"},
        {"stop", "interrupt"},
        {"dry_run", "check_only"},
        {"check", "check_only"},
        {"validate_only", "check_only"},
        {"max_length", "max_output"},
        {"max_output_bytes", "max_output"},
        {"fork", "from"},
        {"parent", "from"},
        {"branch_from", "from"},
};

static size_t least(size_t a, size_t b, size_t c)
{
        size_t m = a < b ? a : b;
        return m < c ? m : c;
}

/* Levenshtein distance of two short names; a long name is not similar to any. */
static size_t distance(const char *a, const char *b)
{
        size_t row[24], n = strlen(b);

        if (strlen(a) > 20 || n > 20)
                return SIZE_MAX;
        for (size_t j = 0; j <= n; j++)
                row[j] = j;
        for (size_t i = 1; a[i - 1]; i++) {
                size_t diagonal = row[0];
                row[0] = i;
                for (size_t j = 1; j <= n; j++) {
                        size_t above = row[j];
                        row[j] = least(above + 1, row[j - 1] + 1,
                                       diagonal + (a[i - 1] != b[j - 1]));
                        diagonal = above;
                }
        }
        return row[n];
}

/* The known name that is most similar, or NULL. */
static const char *find_meant(const char *name)
{
        const char *best = NULL;
        size_t least_distance = 3;

        for (size_t i = 0; i < ARRAY_SIZE(other_names); i++) {
                if (strcasecmp(name, other_names[i][0]) == 0)
                        return other_names[i][1];
        }
        for (size_t i = 0; i < ARRAY_SIZE(arguments_known); i++) {
                size_t d = distance(name, arguments_known[i].name);
                if (d < least_distance) {
                        least_distance = d;
                        best = arguments_known[i].name;
                }
        }
        return best;
}

static int check_profile(const struct config *config, const struct config_profile *own,
                         enum language language, const char *name, struct error *err)
{
        char names[256];
        size_t n = 0;

        names[0] = '\0';
        for (size_t i = 0; i < config->n_profiles; i++) {
                const struct config_profile *profile = &config->profiles[i];
                if (!mcp_profile_is_choice(profile, own, language))
                        continue;
                if (strcmp(profile->name, name) == 0)
                        return 0;
                if (n < sizeof(names))
                        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
                                              n > 0 ? ", " : "", profile->name);
        }
        return error_set(err, EINVAL, "profile must be one of: %s", names);
}

static int refuse_unknown(const char *name, const struct config *config, enum language language,
                          struct error *err)
{
        const char *meant = find_meant(name);
        bool is_javascript = language == LANGUAGE_JAVASCRIPT;

        /* "profile" is unknown where no profile is the agent's to choose. */
        if (meant && (strcmp(meant, "profile") != 0 || mcp_profiles_to_choose(config, language)))
                return error_set(err, EINVAL, "unknown argument \"%.*s\": did you mean \"%s\"?",
                                 NAME_MAX_SHOWN, name, meant);
        return error_set(
                err, EINVAL, "unknown argument \"%.*s\": %s takes %s", NAME_MAX_SHOWN, name,
                is_javascript ? "run_javascript" : "run_python",
                is_javascript
                        ? "code, session, timeout, wait, interrupt, reset, dependencies and max_output"
                        : "code, session, from, branches, timeout, wait, interrupt, reset, restore, checkpoint, check_only, on_error, dependencies and max_output");
}

static bool is_known(const char *name, const struct config *config, enum language language)
{
        if (strcmp(name, "profile") == 0)
                return mcp_profiles_to_choose(config, language);
        for (size_t i = 0; i < ARRAY_SIZE(arguments_known); i++) {
                if (strcmp(arguments_known[i].name, name) == 0)
                        return true;
        }
        return false;
}

/* Without code a call waits for the code that runs in a session, or interrupts it. */
static int check_no_code(const struct run_arguments *a, struct error *err)
{
        if (!a->session_given && !a->wait_given && !a->interrupt)
                return error_set(err, EINVAL, "code is required: a string of %s source",
                                 a->language == LANGUAGE_JAVASCRIPT ? "JavaScript" : "Python");
        if (a->reset || a->check_only)
                return error_set(err, EINVAL, "%s needs code", a->reset ? "reset" : "check_only");
        if (a->rolls_back || a->dependencies)
                return error_set(err, EINVAL, "%s needs code",
                                 a->rolls_back ? "on_error" : "dependencies");
        return 0;
}

static int check_branches(const struct run_arguments *a, struct error *err)
{
        if (!a->from[0] || !a->session_given)
                return error_set(
                        err, EINVAL,
                        "branches needs from, and session: the name before the numbers of the branches");
        if (a->wait_given || a->interrupt)
                return error_set(err, EINVAL, "branches and %s cannot be used together",
                                 a->wait_given ? "wait" : "interrupt");
        if (snprintf(NULL, 0, "%s-%u", a->session, a->branches) > SESSION_NAME_MAX)
                return error_set(err, EINVAL,
                                 "session: \"%s-%u\" would have more than %d characters",
                                 a->session, a->branches, SESSION_NAME_MAX);
        return 0;
}

/* The copy is made of the session as it is now. */
static int check_plan(const struct run_arguments *a, struct error *err)
{
        const char *other = a->from[0]     ? "from"
                            : a->reset     ? "reset"
                            : a->restore   ? "restore"
                            : a->interrupt ? "interrupt"
                                           : "check_only";

        if (!a->code)
                return error_set(err, EINVAL, "plan needs code");
        if (a->from[0] || a->reset || a->restore || a->interrupt || a->check_only)
                return error_set(err, EINVAL, "plan and %s cannot be used together", other);
        if (a->plan_only && a->checkpoint)
                return error_set(err, EINVAL,
                                 "plan \"only\" runs nothing in the session: leave checkpoint out");
        return 0;
}

/* Node cannot be forked. */
static int check_language(yyjson_val *arguments, const struct run_arguments *a, struct error *err)
{
        if (a->language != LANGUAGE_JAVASCRIPT)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(arguments_known); i++) {
                yyjson_val *value = yyjson_obj_get(arguments, arguments_known[i].name);
                if (arguments_known[i].needs_copy && value && !yyjson_is_null(value))
                        return error_set(
                                err, EINVAL,
                                "run_javascript has no argument \"%s\": a JavaScript session has no copies, so no from, branches, checkpoint, restore, on_error and plan; nothing was run",
                                arguments_known[i].name);
        }
        if (a->check_only)
                return error_set(
                        err, EINVAL,
                        "run_javascript has no argument \"check_only\": only Python code can be checked before it runs; nothing was run");
        return 0;
}

int run_arguments_parse(yyjson_val *arguments, const struct config *config,
                        const struct config_profile *own, enum language language,
                        struct run_arguments *ret, struct error *err)
{
        static const char javascript_session[] = "javascript";
        yyjson_val *key, *value;
        size_t i, n;
        struct error first = {};

        *ret = (struct run_arguments){
                .session = "default",
                .language = language,
                .timeout_ms = config->cell_timeout_ms,
                .max_output = config->output_characters,
        };
        if (language == LANGUAGE_JAVASCRIPT)
                memcpy(ret->session, javascript_session, sizeof(javascript_session));
        if (arguments && !yyjson_is_null(arguments) && !yyjson_is_obj(arguments))
                return error_set(err, EINVAL, "arguments must be an object, not %s",
                                 type_name(arguments));

        for (i = 0; i < ARRAY_SIZE(arguments_known); i++) {
                value = yyjson_obj_get(arguments, arguments_known[i].name);
                if (!value || yyjson_is_null(value))
                        continue;
                struct error why = {};
                const struct taking t = {&arguments_known[i], value, config, ret, &why};
                if (take(&t) < 0 && !error_is_set(&first))
                        first = why;
        }
        yyjson_obj_foreach (arguments, i, n, key, value) {
                if (!is_known(yyjson_get_str(key), config, language))
                        return refuse_unknown(yyjson_get_str(key), config, language, err);
        }
        if (check_language(arguments, ret, err) < 0)
                return -EINVAL;
        if (error_is_set(&first))
                return error_set(err, EINVAL, "%s", first.text);
        if (ret->profile && check_profile(config, own, language, ret->profile, err) < 0)
                return -EINVAL;
        if (ret->reset && ret->restore)
                return error_set(
                        err, EINVAL,
                        "reset and restore exclude each other: reset drops the checkpoints");
        if (ret->from[0] && (ret->reset || ret->restore || ret->check_only))
                return error_set(err, EINVAL, "from and %s cannot be used together",
                                 ret->reset     ? "reset"
                                 : ret->restore ? "restore"
                                                : "check_only");
        if (ret->from[0] && !ret->code)
                return error_set(err, EINVAL, "from needs code");
        if (ret->branches > 0 && check_branches(ret, err) < 0)
                return -EINVAL;
        if (ret->plan && check_plan(ret, err) < 0)
                return -EINVAL;
        if (!ret->code && (ret->restore || ret->checkpoint))
                ret->code = "";
        if (!ret->code)
                return check_no_code(ret, err);
        if (ret->check_only && (ret->reset || ret->interrupt || ret->restore || ret->checkpoint))
                return error_set(err, EINVAL,
                                 "check_only runs nothing and changes nothing: leave %s out",
                                 ret->reset       ? "reset"
                                 : ret->interrupt ? "interrupt"
                                 : ret->restore   ? "restore"
                                                  : "checkpoint");
        return 0;
}
