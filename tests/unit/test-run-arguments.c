/* The arguments of run_python as models and clients write them. */
#include "policy/config/add.h"
#include "supervisor/mcp/call/arguments.h"

#include "tests/unit/fake-tools.h" /* the library needs its headers */

static struct config *config;

/* Parses JSON arguments. Returns the error's text, or NULL. */
static const char *parse_for(enum language language, const char *json, struct run_arguments *ret)
{
        static struct error err;
        static yyjson_doc *doc; /* the result points into it */
        struct error why = {};

        yyjson_doc_free(doc);
        doc = NULL;
        err = (struct error){};
        if (!json)
                return run_arguments_parse(NULL, config, NULL, language, ret, &err) < 0 ? err.text
                                                                                        : NULL;
        check_eq_int(json_parse(json, strlen(json), &doc, &why), 0);
        int r = run_arguments_parse(yyjson_doc_get_root(doc), config, NULL, language, ret, &err);
        const char *text = r < 0 ? err.text : NULL;
        if (r < 0) {
                yyjson_doc_free(doc);
                doc = NULL;
        }
        return text;
}

static const char *parse(const char *json, struct run_arguments *ret)
{
        return parse_for(LANGUAGE_PYTHON, json, ret);
}

static void test_javascript(void)
{
        static const char *const copies[] = {"\"from\":\"a\"", "\"branches\":2",
                                             "\"checkpoint\":\"a\"", "\"restore\":\"a\"",
                                             "\"on_error\":\"keep\""};
        struct run_arguments a;
        char text[128];

        check_eq_str(parse_for(LANGUAGE_JAVASCRIPT, "{\"code\":\"1\",\"from\":null}", &a), NULL);
        check_eq_str(a.session, "javascript");
        check_eq_int(a.language, LANGUAGE_JAVASCRIPT);
        for (size_t i = 0; i < ARRAY_SIZE(copies); i++) {
                snprintf(text, sizeof(text), "{\"code\":\"1\",\"session\":\"s\",%s}", copies[i]);
                check_has(parse_for(LANGUAGE_JAVASCRIPT, text, &a), "has no copies");
                check_eq_str(a.session, "s");
        }
        /* An argument that is wrong besides does not hide it. */
        check_has(parse_for(LANGUAGE_JAVASCRIPT, "{\"code\":\"1\",\"from\":7}", &a),
                  "has no copies");
        check_has(parse_for(LANGUAGE_JAVASCRIPT, "{\"code\":\"1\",\"check_only\":true}", &a),
                  "no argument \"check_only\"");
        check_has(parse_for(LANGUAGE_JAVASCRIPT, "{\"code\":\"1\",\"nothing\":1}", &a),
                  "run_javascript takes code, session, timeout");
        check_has(parse_for(LANGUAGE_JAVASCRIPT, "{}", &a), "a string of JavaScript source");
}

static void test_defaults(void)
{
        struct run_arguments a;

        check_eq_str(parse("{\"code\":\"1+1\"}", &a), NULL);
        check_eq_bytes(a.code, a.code_length, "1+1");
        check_eq_str(a.session, "default");
        check_eq_int(a.timeout_ms, config->cell_timeout_ms);
        check_eq_int(a.max_output, config->output_characters);
        check(!a.reset);
        /* null is absent */
        check_eq_str(parse("{\"code\":\"\",\"session\":null,\"timeout\":null,\"reset\":null,"
                           "\"max_output\":null}",
                           &a),
                     NULL);
        check_eq_int(a.code_length, 0);
}

static void test_all(void)
{
        struct run_arguments a;

        check_eq_str(parse("{\"code\":\"x\",\"session\":\"a.B-1_\",\"timeout\":2.5,\"reset\":true,"
                           "\"max_output\":50}",
                           &a),
                     NULL);
        check_eq_str(a.session, "a.B-1_");
        check_eq_int(a.timeout_ms, 2500);
        check(a.reset && !a.check_only);
        check_eq_int(a.max_output, 50);
        check_eq_str(parse("{\"code\":\"x\",\"check_only\":\"true\"}", &a), NULL);
        check(a.check_only);
}

static void test_strings_for_numbers(void)
{
        struct run_arguments a;

        check_eq_str(parse("{\"code\":\"x\",\"timeout\":\"20\",\"reset\":\"true\",\"max_output\":"
                           "\"77\"}",
                           &a),
                     NULL);
        check_eq_int(a.timeout_ms, 20000);
        check_eq_int(a.max_output, 77);
        check(a.reset);
        check_eq_str(parse("{\"code\":\"x\",\"reset\":\"False\"}", &a), NULL);
        check(!a.reset);
}

static void test_refused(void)
{
        static const struct {
                const char *json, *why;
        } cases[] = {
                {NULL, "code is required"},
                {"{}", "code is required"},
                {"[]", "arguments must be an object, not an array"},
                {"{\"code\":1}", "code must be a string, not a number"},
                {"{\"code\":[\"x\"]}", "code must be a string, not an array"},
                {"{\"code\":\"x\",\"timeout\":0}", "timeout must be more than 0 and at most 600"},
                {"{\"code\":\"x\",\"timeout\":-1}", "not -1"},
                {"{\"code\":\"x\",\"timeout\":601}", "at most 600"},
                {"{\"code\":\"x\",\"timeout\":1e400}", "timeout must be"},
                {"{\"code\":\"x\",\"timeout\":\"soon\"}", "number of seconds, not a string"},
                {"{\"code\":\"x\",\"timeout\":\"\"}", "number of seconds"},
                {"{\"code\":\"x\",\"timeout\":true}", "number of seconds, not a boolean"},
                {"{\"code\":\"x\",\"session\":\"a/b\"}", "session must be 1 to 64 of"},
                {"{\"code\":\"x\",\"session\":\"\"}", "session must be"},
                {"{\"code\":\"x\",\"session\":7}", "session must be a string"},
                {"{\"code\":\"x\",\"reset\":1}", "reset must be true or false, not a number"},
                {"{\"code\":\"x\",\"check_only\":0}", "check_only must be true or false"},
                {"{\"code\":\"x\",\"check_only\":true,\"reset\":true}", "leave reset out"},
                {"{\"code\":\"x\",\"check_only\":true,\"interrupt\":true}", "leave interrupt out"},
                {"{\"code\":\"x\",\"dry_run\":true}", "did you mean \"check_only\"?"},
                {"{\"code\":\"x\",\"max_output\":0}", "max_output must be 1 to 2000000"},
                {"{\"code\":\"x\",\"max_output\":1.5}", "whole number"},
                {"{\"code\":\"x\",\"max_output\":99999999999}", "max_output must be 1 to"},
                {"{\"code\":\"x\",\"wait\":-1}", "wait must be 0 to 600 (seconds), not -1"},
                {"{\"code\":\"x\",\"wait\":1e9}", "not 1e+09"},
                {"{\"code\":\"x\",\"wait\":\"NaN\"}",
                 "wait must be a number of seconds, not a string"},
                {"{\"code\":\"x\",\"wait\":\"inf\"}", "number of seconds"},
                {"{\"code\":\"x\",\"wait\":[1]}", "number of seconds, not an array"},
                {"{\"code\":\"x\",\"wait\":true}", "number of seconds, not a boolean"},
                {"{\"code\":\"x\",\"interrupt\":1}", "interrupt must be true or false"},
                {"{\"interrupt\":false}", "code is required"},
                {"{\"max_output\":5}", "code is required"},
                {"{\"session\":\"s\",\"reset\":true}", "reset needs code"},
                {"{\"session\":\"s\",\"on_error\":\"rollback\"}", "on_error needs code"},
                {"{\"code\":\"x\",\"on_error\":true}", "on_error must be \"keep\" or \"rollback\""},
                {"{\"code\":\"x\",\"stop\":true}", "did you mean \"interrupt\"?"},
                {"{\"cod\":\"x\"}", "unknown argument \"cod\": did you mean \"code\"?"},
                {"{\"code\":\"x\",\"Timeout\":1}", "did you mean \"timeout\"?"},
                {"{\"code\":\"x\",\"timeout_seconds\":1}", "did you mean \"timeout\"?"},
                {"{\"script\":\"x\"}", "did you mean \"code\"?"},
                {"{\"code\":\"x\",\"servers\":[]}", "run_python takes code, session"},
        };
        struct run_arguments a;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *why = parse(cases[i].json, &a);
                check(why);
                check_has(why, cases[i].why);
        }
}

/* Without code a call waits for the code that runs. */
static void test_waits(void)
{
        struct run_arguments a;

        check_eq_str(parse("{\"code\":\"x\",\"wait\":0}", &a), NULL);
        check(a.wait_given && a.wait_ms == 0 && !a.interrupt);
        check_eq_str(parse("{\"code\":\"x\"}", &a), NULL);
        check(!a.wait_given);
        check_eq_str(parse("{\"wait\":\"2.5\",\"timeout\":5}", &a), NULL);
        check(!a.code && a.wait_given && a.wait_ms == 2500);
        check_eq_str(parse("{\"session\":\"s\"}", &a), NULL);
        check(!a.code && !a.wait_given);
        check_eq_str(parse("{\"interrupt\":\"True\"}", &a), NULL);
        check(!a.code && a.interrupt);
}

/* The refusal of a call names its session where that was readable. */
static void test_session_of_refusal(void)
{
        struct run_arguments a;

        check(parse("{\"code\":\"x\",\"timeout\":-1,\"session\":\"mine\"}", &a));
        check_eq_str(a.session, "mine");
        check(parse("{\"code\":\"x\",\"session\":\"a/b\"}", &a));
        check_eq_str(a.session, "default");
}

/* An agent can select the profiles that are offered to agents, and its client's own. */
static void test_profile(void)
{
        static const char text[] = "{\"profiles\": {\"a\": {\"agent\": true}, \"b\": {}}}";
        struct config *before = config, *with = config_new();
        struct run_arguments a;
        struct error err = {};

        check_has(parse("{\"code\":\"1\",\"profile\":\"a\"}", &a),
                  "unknown argument \"profile\": run_python takes code");
        check(with);
        check_ok(config_add(with, "test.json", text, strlen(text), &err));
        check_ok(config_finish(with, &err));
        config = with;
        check_eq_str(parse("{\"code\":\"1\",\"profile\":\"a\"}", &a), NULL);
        check_eq_str(a.profile, "a");
        check_eq_str(parse("{\"code\":\"1\"}", &a), NULL);
        check(!a.profile);
        check_has(parse("{\"code\":\"1\",\"profile\":\"b\"}", &a), "profile must be one of: a");
        check_has(parse("{\"code\":\"1\",\"profile\":1}", &a), "profile must be a string");
        config = before;
        config_free(with);
}

int main(void)
{
        config = config_new();
        run(test_defaults);
        run(test_javascript);
        run(test_profile);
        run(test_all);
        run(test_strings_for_numbers);
        run(test_waits);
        run(test_refused);
        run(test_session_of_refusal);
        config_free(config);
        return 0;
}
