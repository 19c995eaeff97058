/* Results in the form of the config. Each way that a call can end is in tests/integration/test_publish_run.py. */
#include "supervisor/mcp/publish/form-result.h"

#include <signal.h>
#include <stdlib.h>

#include "base/json.h"
#include "supervisor/mcp/call/result-content.h"
#include "tests/unit/test.h"

static yyjson_doc *rendered;
static struct cell_outcome outcome;
static struct form_facts facts;

static void begin(enum cell_status status, const char *out, size_t n)
{
        facts = (struct form_facts){
                .session = "s", .most = 1000, .kinds = CONTENT_ALL, .timeout_ms = 1500};
        outcome = (struct cell_outcome){
                .status = status, .state = CELL_STATE_KEPT, .duration_us = 1234567};
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&outcome.streams[i]);
        check(capture_append(&outcome.streams[CELL_STDOUT], out, n) >= 0);
        check(capture_finish(&outcome.streams[CELL_STDOUT]) >= 0);
}

static void worker_says(const char *json)
{
        struct error err = {};

        check_ok(json_parse(json, strlen(json), &outcome.result, &err));
        outcome.value = yyjson_obj_get(yyjson_doc_get_root(outcome.result), "value");
        outcome.error = yyjson_obj_get(yyjson_doc_get_root(outcome.result), "error");
}

static void end(void)
{
        free(outcome.calls);
        outcome.calls = NULL;
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_done(&outcome.streams[i]);
        yyjson_doc_free(outcome.result);
        yyjson_doc_free(rendered);
        rendered = NULL;
}

/* The result with a form, which is checked first. */
static yyjson_val *render(const char *form)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(256 * 1024 * 1024);
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *at = NULL;
        struct error err = {};
        bool structured;

        check_ok(json_parse(form, strlen(form), &doc, &err));
        check_ok(result_form_check(yyjson_doc_get_root(doc), &structured, &at, &err));
        facts.form = form;
        check_ok(form_render(&outcome, &facts, &b));
        yyjson_doc_free(rendered);
        rendered = NULL;
        check_ok(json_parse(buffer_bytes(&b), b.length, &rendered, &err));
        return yyjson_doc_get_root(rendered);
}

static yyjson_val *text_of(yyjson_val *result)
{
        return yyjson_obj_get(yyjson_arr_get_last(yyjson_obj_get(result, "content")), "text");
}

static void is_text(const char *form, const char *expected)
{
        check_eq_str(yyjson_get_str(text_of(render(form))), expected);
}

static void test_parts_of_a_text(void)
{
        begin(CELL_OK, " a\n", 3);
        is_text("[{\"text\":[\"{stdout}\"]}]", " a\n");
        is_text("[{\"text\":[\"{stdout}\",\"{stderr}\",\"x{stderr}\",\"y\"],\"join\":\"|\"}]",
                " a\n|y");
        is_text("[{\"text\":[{\"field\":\"stderr\",\"empty\":\"none\"},{\"field\":\"stdout\",\"as\":\"stripped\",\"before\":\"<\",\"after\":\">\"}]}]",
                "none\n<a>");
        is_text("[{\"text\":[\"{seconds} {milliseconds} {timeout_s} {timeout_ms} {exit_code} {session} {status}\"]}]",
                "1.235 1234 1.5 1500 0 s ok");
        is_text("[{\"text\":[{\"field\":\"seconds\",\"digits\":0},{\"field\":\"milliseconds\",\"digits\":2},{\"field\":\"timeout_s\",\"digits\":2}]}]",
                "1\n1234.57\n1.50");
        is_text("[{\"text\":[\"{{stdout}}\"]}]", "{stdout}");
        is_text("[{\"text\":[]}]", "");
        end();
}

/* A limit counts bytes with the marker, and cuts no character. */
static void test_limits(void)
{
        begin(CELL_OK, "aéaéaéaé", 12);
        is_text("[{\"text\":[{\"field\":\"stdout\",\"limit\":12,\"marker\":\"…\"}]}]", "aéaéaéaé");
        is_text("[{\"text\":[{\"field\":\"stdout\",\"limit\":11,\"marker\":\"+{limit}\"}]}]",
                "aéaéa+11");
        is_text("[{\"text\":[{\"field\":\"stdout\",\"limit\":2}]}]", "a");
        is_text("[{\"text\":[{\"field\":\"stdout\",\"limit\":2,\"marker\":\"long\"}]}]", "lo");
        is_text("[{\"text\":[{\"field\":\"stdout\",\"limit\":\"3K\",\"marker\":\"{limit_kib}\"}]}]",
                "aéaéaéaé");
        facts.most = 3;
        check_has(yyjson_get_str(text_of(render("[{\"text\":[\"{stdout}\"]}]"))),
                  "5 of 8 characters cut here");
        end();
}

/* The middle of a stream is dropped: its begin is what a limit gets. */
static void test_a_long_stream(void)
{
        enum { PIECE = 1024 * 1024 };
        char *piece = malloc(PIECE);

        check(piece);
        memset(piece, 'x', PIECE);
        begin(CELL_OK, "begin", 5);
        for (int i = 0; i < 40; i++)
                check(capture_append(&outcome.streams[CELL_STDOUT], piece, PIECE) >= 0);
        check(capture_append(&outcome.streams[CELL_STDOUT], "end", 3) >= 0);
        free(piece);
        yyjson_val *text = text_of(
                render("[{\"text\":[{\"field\":\"stdout\",\"limit\":\"8M\",\"marker\":\"!\"}]}]"));
        check_eq_int(yyjson_get_len(text), 8 * PIECE);
        check(strncmp(yyjson_get_str(text), "beginx", 6) == 0 &&
              yyjson_get_str(text)[8 * PIECE - 1] == '!');
        yyjson_val *result = render(
                "[{\"isError\":false,\"text\":[{\"field\":\"stdout\",\"limit\":\"8M\"},{\"field\":\"stdout\",\"limit\":\"8M\"},"
                "{\"field\":\"stdout\",\"limit\":\"8M\"},{\"field\":\"stdout\",\"limit\":\"8M\"}]}]");
        check_eq_str(yyjson_get_str(text_of(result)), "the result is larger than 9 MiB");
        check(yyjson_is_true(yyjson_obj_get(result, "isError")));
        end();
}

static void test_json(void)
{
        begin(CELL_OK, "[1, {\"a\": 1.50}]\n", 17);
        is_text("[{\"indent\":false,\"json\":{\"o\":{\"field\":\"stdout\",\"as\":\"json\"},\"e\":{\"field\":\"stderr\"},\"f\":{\"field\":\"stderr\",\"empty\":null},"
                "\"t\":\"{stderr}\",\"n\":[1e3,false,{\"field\":\"exit_code\"}],\"c\":{\"field\":\"tool_calls\",\"empty\":[]}}}]",
                "{\"o\":[1,{\"a\":1.50}],\"f\":null,\"t\":\"\",\"n\":[1e3,false,0],\"c\":[]}");
        is_text("[{\"json\":{\"a\":[],\"b\":{\"field\":\"stdout\",\"as\":\"json\"}}}]",
                "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"a\": 1.50\n    }\n  ]\n}");
        end();
        begin(CELL_OK, "{\"a\": 1}, \"b\": 2", 16);
        is_text("[{\"indent\":false,\"json\":[{\"field\":\"stdout\",\"as\":\"json\"}]}]",
                "[\"{\\\"a\\\": 1}, \\\"b\\\": 2\"]");
        end();
}

/* NUL and bytes that are not UTF-8 stay within their string. */
static void test_bytes(void)
{
        begin(CELL_OK, "a\0\"}\xff", 5);
        yyjson_val *text = text_of(render("[{\"text\":[\"{stdout}\"]}]"));
        check_eq_int(yyjson_get_len(text), 7);
        check(memcmp(yyjson_get_str(text), "a\0\"}\xef\xbf\xbd", 7) == 0);
        end();
}

static void test_tool_calls(void)
{
        begin(CELL_OK, "", 0);
        outcome.calls = calloc(3, sizeof(*outcome.calls));
        check(outcome.calls);
        outcome.n_calls = 3;
        outcome.calls[0] = (struct cell_call){
                .server = "s", .tool = "a", .used = true, .ok = true, .duration_us = 2500};
        outcome.calls[2] = (struct cell_call){.server = "s", .tool = "{stdout}\"", .used = true};
        is_text("[{\"indent\":false,\"json\":{\"field\":\"tool_calls\"}}]",
                "[{\"server\":\"s\",\"tool\":\"a\",\"ok\":true,\"milliseconds\":2},"
                "{\"server\":\"s\",\"tool\":\"{stdout}\\\"\",\"ok\":false,\"milliseconds\":0}]");
        is_text("[{\"indent\":false,\"json\":{\"field\":\"tool_calls\",\"item\":{\"n\":\"{server}.{tool}\",\"s\":{\"field\":\"ok\"},\"d\":{\"field\":\"seconds\"}}}}]",
                "[{\"n\":\"s.a\",\"s\":true,\"d\":0.003},{\"n\":\"s.{stdout}\\\"\",\"s\":false,\"d\":0}]");
        end();
}

static void test_errors(void)
{
        static const char form[] =
                "[{\"text\":[\"{error}|{traceback}|{stderr}|{exit_code}|{signal}|{status}\"]}]";

        begin(CELL_ERROR, "", 0);
        worker_says(
                "{\"error\":{\"type\":\"ValueError\",\"message\":\"{stdout}\",\"traceback\":\"T\\n\"}}");
        is_text(form, "ValueError: {stdout}|T\n||1||error");
        facts.is_script = true;
        is_text(form, "ValueError: {stdout}|T\n|T\n|1||error");
        check(yyjson_is_true(yyjson_obj_get(rendered->root, "isError")));
        end();
        begin(CELL_KILLED, "", 0);
        outcome.signal = SIGSEGV;
        snprintf(outcome.why, sizeof(outcome.why), "killed");
        is_text(form, "killed|killed||139|SIGSEGV|killed");
        end();
        begin(CELL_EXIT, "x", 1);
        outcome.has_exit_code = true;
        is_text(form, "|||0||ok");
        outcome.exit_code = 3;
        is_text(form, "exit code 3|exit code 3||3||exit");
        check(yyjson_is_false(
                yyjson_obj_get(render("[{\"text\":[],\"isError\":false}]"), "isError")));
        end();
        begin(CELL_ERROR, "", 0);
        outcome.error_type = "SandboxError";
        snprintf(outcome.why, sizeof(outcome.why), "no place");
        is_text(form, "no place|no place||1||refused");
        snprintf(facts.server, sizeof(facts.server), "x");
        is_text("[{\"when\":\"no server\",\"text\":[\"{server}\"]},{\"text\":[]}]", "x");
        end();
}

/* Blank output, with white space as Python has it. */
static void test_no_output(void)
{
        static const char form[] =
                "[{\"when\":\"no output\",\"text\":[\"none\"]},{\"text\":[\"some\"]}]";

        begin(CELL_OK, " \t\r\n\x1f\xc2\xa0\xe2\x80\xa8\xe3\x80\x80", 13);
        is_text(form, "none");
        end();
        begin(CELL_OK, "\xe2\x80\x8b", 3); /* a character without width is not a space */
        is_text(form, "some");
        end();
        begin(CELL_TIMEOUT, "", 0);
        is_text(form, "some");
        end();
}

static void test_structured(void)
{
        begin(CELL_OK, "x", 1);
        yyjson_val *result = render(
                "[{\"text\":[\"{stdout}\",\"y\"],\"structured\":{\"result\":{\"field\":\"text\"}}}]");
        check_eq_str(json_string(yyjson_obj_get(result, "structuredContent"), "result", NULL),
                     "x\ny");
        end();
}

int main(void)
{
        run(test_parts_of_a_text);
        run(test_limits);
        run(test_a_long_stream);
        run(test_json);
        run(test_bytes);
        run(test_tool_calls);
        run(test_errors);
        run(test_no_output);
        run(test_structured);
        return 0;
}
