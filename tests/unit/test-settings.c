/* Settings from outside: what is given, values, precedence, and what becomes of a wrong value. */
#include "policy/config/add.h"
#include "policy/config/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

static const char table[] =
        "{\"as\": {\"name\": \"t\", \"options\": {"
        "\"--most\": {\"type\": \"integer\", \"min\": 1, \"max\": 50, \"default\": 10, \"exit_range\": 9},"
        "\"--least\": {\"type\": \"integer\", \"at_most\": \"--most\", \"keys\": [\"/limits/pids\"]},"
        "\"--call\": {\"choices\": [\"a\"], \"exit\": 0},"
        "\"--on\": {\"type\": \"flag\"}},"
        "\"environment\": {\"MOST\": \"--most\", \"PIDS\": {\"type\": \"integer\", \"keys\": [\"/limits/pids\"]},"
        "\"KIND\": {\"choices\": [\"a\", \"b\"], \"default\": \"a\", \"values\": {\"a\": \"\", \"b\": \"/profiles/p\"}},"
        "\"OF\": {\"keys\": [\"{KIND}/image\"]}, \"OF_NONE\": {\"keys\": [\"{NOTHING}/image\"]},"
        "\"TOKEN\": {\"secret\": true, \"notes\": \"not used\"},"
        "\"DIRECTORY\": {\"type\": \"path\", \"default\": \"~/d\", \"always\": true, \"keys\": [\"--servers-from\"], \"unless\": \"SERVERS\"},"
        "\"SERVERS\": {\"type\": \"servers\", \"keys\": [\"/mcpServers\"]}}}}";

static const char *names[8], *values[8];
static size_t n_variables;

static const char *variable(const char *name)
{
        for (size_t i = 0; i < n_variables; i++)
                if (strcmp(names[i], name) == 0)
                        return values[i];
        return NULL;
}

static void set_variable(const char *name, const char *value)
{
        names[n_variables] = name;
        values[n_variables++] = value;
}

/* A tree in one line. */
static char *compact(const struct json_tree *tree)
{
        _cleanup_free_ char *text = NULL;
        yyjson_doc *doc = NULL;
        char *ret = NULL;
        size_t n = 0;

        check(json_tree_write(tree, &text, &n) == 0 && json_parse(text, n, &doc, NULL) == 0);
        check(json_write(yyjson_doc_get_root(doc), &ret, &n) == 0);
        yyjson_doc_free(doc);
        return ret;
}

/* Applies the words of a command line. Returns the text of the settings, or NULL with status and error. */
static char *apply(const char *const *words, int *status, char **directory, struct error *err)
{
        _cleanup_config_ struct config *config = config_new();
        struct settings_given given = {.variable = variable, .home = "/h"};
        struct settings_result result = {};
        char *argv[8] = {};
        int argc = 0, i = 0;

        check(config_add_layer(config, CONFIG_LAYER_TABLE, "t", table, sizeof(table) - 1, err) ==
              0);
        for (; words && words[argc]; argc++)
                argv[argc] = (char *)(uintptr_t)words[argc];
        while (i < argc) {
                int used = settings_take_option(&config->as, argc - i, argv + i, &given, err);
                check(used > 0);
                i += used;
        }
        struct json_tree *tree = json_tree_new(NULL);
        int r = settings_apply(&config->as, &given, tree, &result, status, err);
        char *text = r < 0 ? NULL : compact(result.settings);
        if (directory)
                *directory = result.n_cloister > 0 ? strdup(result.cloister[0].value) : NULL;
        settings_done(&result);
        json_tree_free(tree);
        n_variables = 0;
        return text;
}

static void test_values(void)
{
        struct error err = {};
        char *directory = NULL;
        int status = 0;

        set_variable("MOST", "7");
        set_variable("PIDS", "9");
        set_variable("TOKEN", "sesame");
        _cleanup_free_ char *text = apply((const char *const[]){"--least=5", "--on", NULL}, &status,
                                          &directory, &err);
        check_has(text, "\"--most\":7");
        /* The option wins over the variable with the same key. */
        check_has(text, "\"limits\":{\"pids\":5}");
        check_has(text, "\"--on\":true");
        check_has(text, "\"TOKEN\":null");
        check_has(text, "TOKEN: not used");
        check(!strstr(text, "sesame"));
        check_eq_str(directory, "/h/d");
        free(directory);
}

/* A key below the place that another setting chooses. */
static void test_places(void)
{
        struct error err = {};
        int status = 0;

        set_variable("OF", "x");
        _cleanup_free_ char *text = apply(NULL, &status, NULL, &err);
        check_has(text, "\"image\":\"x\"");
        check(!strstr(text, "profiles"));
        set_variable("OF", "x");
        set_variable("KIND", "b");
        _cleanup_free_ char *other = apply(NULL, &status, NULL, &err);
        check_has(other, "\"profiles\":{\"p\":{\"image\":\"x\"}}");
        set_variable("OF_NONE", "x");
        check(!apply(NULL, &status, NULL, &err));
        check_eq_int(status, 125);
        check_has(err.text, "the table has no place {NOTHING}/image");
}

static void test_servers(void)
{
        struct error err = {};
        char *directory = NULL;
        int status = 0;

        set_variable("SERVERS", "[{\"name\": \"x\", \"command\": \"c\", \"env\": {\"K\": \"v\"}}]");
        _cleanup_free_ char *text = apply(NULL, &status, &directory, &err);
        check_has(text, "\"mcpServers\":{\"x\":{\"command\":\"c\"");
        check_has(text, "\"SERVERS\":null");
        check(!directory);
}

static void refused(const char *word, int expected, const char *part)
{
        struct error err = {};
        int status = 0;
        char *text = apply((const char *const[]){word, NULL}, &status, NULL, &err);

        check(!text);
        check_eq_int(status, expected);
        check_has(err.text, part);
}

static void test_wrong(void)
{
        struct error err = {};
        int status = 0;

        refused("--most=0", 9, "--most 0: must be from 1 to 50");
        refused("--most=x", 2, "--most x: must be a whole number");
        refused("--most=99999999999999999999", 9, "must be from 1 to 50");
        refused("--most=0x10", 2, "must be a whole number");
        refused("--most=", 2, "must be a whole number");
        refused("--least=11", 2, "--least 11: must be from 0 to 10");
        set_variable("SERVERS", "[{\"name\": 1}]");
        refused("--on", 2, "SERVERS: item 1 must be an object with a name");
        /* Exit status 0: each call is refused. */
        _cleanup_free_ char *text = apply((const char *const[]){"--call=b", NULL}, &status, NULL,
                                          &err);
        check_has(text, "\"refusal\":\"--call b: must be one of a\"");
}

/* Values of the user's files bound settings; without such a value there is no bound. */
static void test_bounds(void)
{
        static const char *const users[] = {"{}",
                                            "{\"limits\": {\"pids\": 20}, \"timeout_max\": 700}"};
        static const char settings[] =
                "{\"limits\": {\"pids\": 300}, \"timeout_max\": 900, \"as\": {\"notes\": [\"n\"]}}";

        for (size_t i = 0; i < 2; i++) {
                _cleanup_config_ struct config *config = config_new();
                struct error err = {};
                check_ok(config_add_layer(config, CONFIG_LAYER_TABLE, "t", table, sizeof(table) - 1,
                                          &err));
                check_ok(config_add(config, "u", users[i], strlen(users[i]), &err));
                check_ok(config_add_layer(config, CONFIG_LAYER_SETTINGS, "s", settings,
                                          sizeof(settings) - 1, &err));
                check_ok(config_finish(config, &err));
                check_eq_int((int)config->profiles[0].limits.pids, i == 0 ? 300 : 20);
                check_eq_int((int)config->cell_timeout_max_ms, i == 0 ? 900000 : 700000);
                check_eq_int((int)config->n_warnings, i == 0 ? 1 : 3);
                check_eq_str(config->as.name, "t");
        }
}

int main(void)
{
        run(test_values);
        run(test_servers);
        run(test_places);
        run(test_wrong);
        run(test_bounds);
        return 0;
}
