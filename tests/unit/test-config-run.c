#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/result-form.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tests/unit/test.h"

DEFINE_CLEANUP(struct config *, config_free)
#define _cleanup_config_ _cleanup_(cleanup_config_free)

#define PROPERTIES "{\"c\": {}, \"t\": {}, \"l\": {}, \"p\": {}, \"s\": {}}"

/* A tool with this "run", and other members. */
static struct config *read_tool(const char *run, const char *more, struct error *err)
{
        struct config *config = config_new();
        char text[4096];

        check(config);
        snprintf(text, sizeof(text),
                 "{\"publish\": {\"tools\": {\"x\": {\"description\": \"d\",\n"
                 "\"inputSchema\": {\"type\": \"object\", \"properties\": " PROPERTIES "},\n"
                 "\"run\": %s\n%s}}}}",
                 run, more);
        config_add(config, "a.json", text, strlen(text), err);
        return config;
}

static void refused(const char *run, const char *more, const char *part)
{
        struct error err = {};
        _cleanup_config_ struct config *config = read_tool(run, more, &err);

        check_has(err.text, "a.json: line ");
        check_has(err.text, part);
        check_eq_int(config->n_published, 0);
}

static void test_all_of_run(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = read_tool(
                "{\"code\": \"c\", \"language\": {\"argument\": \"l\"}, \"form\": \"script\", \"session\": \"work\","
                "\"name\": \"__sandbox__\", \"packages\": \"p\", \"servers\": \"s\","
                "\"timeout\": {\"argument\": \"t\", \"default\": \"30s\", \"min\": 1, \"max\": \"5m\"}}",
                "", &err);

        check_eq_str(err.text, "");
        check_eq_int(config->n_published, 1);
        const struct config_run *run = &config->published[0].run;
        check_eq_str(run->code, "c");
        check_eq_str(run->language_argument, "l");
        check_eq_str(run->language, NULL);
        check(run->is_script);
        check_eq_str(run->session, "work");
        check_eq_str(run->name, "__sandbox__");
        check_eq_str(run->packages, "p");
        check_eq_str(run->servers, "s");
        check_eq_str(run->timeout.argument, "t");
        check_eq_int(run->timeout.initial_ms, 30000);
        check_eq_int(run->timeout.least_ms, 1000);
        check_eq_int(run->timeout.most_ms, 300000);
        check(config_published_has_code(&config->published[0]));
}

static void test_least_of_run(void)
{
        struct error err = {};
        _cleanup_config_ struct config *config = read_tool(
                "{\"code\": \"c\", \"session\": \"new\", \"timeout\": 5, \"language\": \"javascript\"}",
                "", &err);

        check_eq_str(err.text, "");
        const struct config_run *run = &config->published[0].run;
        check(!run->session && !run->is_script && !run->name && !run->packages);
        check_eq_int(run->timeout.initial_ms, 5000);
        check_eq_str(run->timeout.argument, NULL);
        check_eq_str(run->language, "javascript");
        check_eq_str(config->published[0].result, NULL);
}

static void test_wrong_run(void)
{
        refused("{}", "", "line 3: publish: tool \"x\": run needs \"code\"");
        refused("1", "", "run must be an object");
        refused("{\"code\": \"q\"}", "", "run.code names \"q\", which is not in the properties");
        refused("{\"code\": \"c\", \"servers\": \"c\"}", "",
                "run.code and run.servers name the same argument");
        refused("{\"code\": \"c\", \"timeout\": {\"default\": 9, \"max\": 8}}", "",
                "min and default must not be above max");
        refused("{\"code\": \"c\", \"timeout\": {\"default\": 1, \"min\": 2}}", "",
                "default must not be below min");
        refused("{\"code\": \"c\", \"timeout\": {\"least\": 1}}", "", "timeout has no \"least\"");
        refused("{\"code\": \"c\", \"timeout\": -1}", "", "run.timeout must be");
        refused("{\"code\": \"c\", \"language\": \"perl\"}", "",
                "must be \"python\" or \"javascript\"");
        refused("{\"code\": \"c\", \"form\": \"file\"}", "",
                "run.form must be \"cell\" or \"script\"");
        refused("{\"code\": \"c\", \"session\": \"a b\"}", "",
                "session must be \"new\" or the name");
        refused("{\"code\": \"c\", \"session\": \"-a\"}", "",
                "session must be \"new\" or the name");
        refused("{\"code\": \"c\", \"name\": \"1\"}", "", "name must be a name of Python");
        refused("{\"code\": \"c\"}", ", \"code\": \"1\"", "run excludes code and file");
        refused("{\"code\": \"c\"}", ", \"timeout\": 1", "is run.timeout");
        refused("{\"code\": \"c\"}", ", \"outputSchema\": {\"type\": \"object\"}",
                "needs a result with \"structured\"");
}

/* The line is that of the part. */
static void test_wrong_result(void)
{
        static const char *const run = "{\"code\": \"c\"}";

        refused(run, ", \"result\": [\n{\"text\": [\"a\",\n\"{b}\"]}]",
                "line 6: publish: tool \"x\": result: \"{b}\" names no field");
        refused(run, ", \"result\": [{\"when\": \"ok\", \"text\": []}]", "no case for \"error\"");
        refused(run, ", \"result\": [{\"text\": []}, {\"text\": []}]", "never reached");
        refused(run, ", \"result\": [{\"when\": \"never\", \"text\": []}]",
                "when must be one or several of \"ok\", \"no output\"");
        refused(run, ", \"result\": [{\"text\": [], \"of\": 1}]", "a case has no \"of\"");
        refused(run, ", \"result\": [{\"text\": [{\"field\": \"stdout\", \"marker\": \"x\"}]}]",
                "marker needs limit");
        refused(run,
                ", \"result\": [{\"text\": [{\"field\": \"stdout\", \"limit\": 9, \"marker\": \"{stdout}\"}]}]",
                "names no field");
        refused(run, ", \"result\": [{\"text\": [{\"field\": \"tool_calls\"}]}]",
                "only stand in json");
        refused(run, ", \"result\": [{\"json\": {\"field\": \"seconds\", \"limit\": 1}}]",
                "its field a text");
}

/* Braces are written twice; a piece is a run of literal bytes or one field. */
static void test_pieces(void)
{
        static const char text[] = "a{{b}}{stdout}{exit_code}";
        const char *at = text, *end = text + sizeof(text) - 1;
        char literal[32] = "";
        size_t n = 0;
        struct result_piece piece;

        while (result_piece_next(&at, end, RESULT_IN_CASE, &piece) > 0 && piece.literal) {
                memcpy(literal + n, piece.literal, piece.length);
                n += piece.length;
        }
        check_eq_str(literal, "a{b}");
        check(!piece.literal && piece.field == RESULT_OF_STDOUT);
        check_eq_int(result_piece_next(&at, end, RESULT_IN_CASE, &piece), 1);
        check_eq_int(piece.field, RESULT_OF_EXIT_CODE);
        check_eq_int(result_piece_next(&at, end, RESULT_IN_CASE, &piece), 0);
        at = text + 6;
        check(result_piece_next(&at, end, RESULT_IN_MARKER, &piece) < 0);
}

/* The first case that has the end; a wide word has the narrow end, and not the other way round. */
static void test_cases(void)
{
        static const char form[] =
                "[{\"when\": \"no output\", \"text\": [\"0\"]}, {\"when\": [\"ok\", \"timeout\"], \"text\": [\"1\"]},"
                "{\"when\": \"refused\", \"text\": [\"2\"]}, {\"text\": [\"3\"]}]";
        static const struct {
                enum result_end end;
                const char *text;
        } expected[] = {{RESULT_NO_OUTPUT, "0"}, {RESULT_OK, "1"},        {RESULT_TIMEOUT, "1"},
                        {RESULT_REFUSED, "2"},   {RESULT_NO_SERVER, "2"}, {RESULT_ERROR, "3"},
                        {RESULT_KILLED, "3"}};
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *at = NULL;
        struct error err = {};
        struct result_case found;
        bool structured = true;

        check_ok(json_parse(form, sizeof(form) - 1, &doc, &err));
        check_ok(result_form_check(yyjson_doc_get_root(doc), &structured, &at, &err));
        check(!structured);
        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                result_form_find(yyjson_doc_get_root(doc), expected[i].end, &found);
                check_eq_str(yyjson_get_str(yyjson_arr_get_first(found.text)), expected[i].text);
        }
}

int main(void)
{
        run(test_all_of_run);
        run(test_least_of_run);
        run(test_wrong_run);
        run(test_wrong_result);
        run(test_pieces);
        run(test_cases);
        return 0;
}
