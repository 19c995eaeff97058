/* The text of a question, and the answers to its form. */
#include "supervisor/trust/questions/question-text.h"

#include "base/cleanup.h"
#include "base/utf8.h"
#include "tests/unit/test.h"

enum { MANY = 300 };

static struct question_call calls[MANY];
static const struct question_call *list[MANY];

static struct question_view view_of(size_t n, const char *json)
{
        for (size_t i = 0; i < n; i++) {
                calls[i] = (struct question_call){.number = i + 1,
                                                  .server = "mail",
                                                  .tool = "send",
                                                  .json = json,
                                                  .n = strlen(json),
                                                  .rule = "config.json line 14",
                                                  .why = "mail leaves the house"};
                list[i] = &calls[i];
        }
        return (struct question_view){.id = "7f3a2b1c",
                                      .session = "main",
                                      .principal = "",
                                      .sha256 = "abc",
                                      .calls = list,
                                      .n_calls = n};
}

static size_t n_shown;

static char *message_of(const struct question_view *view)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024);

        check_eq_int(question_message(view, &b, &n_shown), 0);
        check(b.length <= CLIENT_MESSAGE_MAX);
        check_eq_int(buffer_append(&b, "", 1), 0);
        return strdup(buffer_bytes(&b));
}

static void test_first_line_has_all_that_matters(void)
{
        struct question_view view = view_of(2, "{\"to\":\"a@b\"}");
        _cleanup_free_ char *text = message_of(&view);

        check_eq_str(text,
                     "2 calls of mail.send: mail leaves the house: cloister approve 7f3a2b1c\n"
                     "1. mail.send {\"to\":\"a@b\"} (12 bytes)\n"
                     "2. mail.send {\"to\":\"a@b\"} (12 bytes)\n"
                     "session main; rule: config.json line 14\n"
                     "SHA-256 abc");
}

/* The first call's rule does not stand for others. */
static void test_several_rules(void)
{
        struct question_view view = view_of(6, "{}");

        calls[1].rule = calls[2].rule = "config.json line 15";
        _cleanup_free_ char *text = message_of(&view);
        check_has(text, "mail leaves the house (and other rules): cloister approve 7f3a2b1c\n");
        check_has(text, "; rules: config.json line 14, config.json line 15\n");
        check_eq_int(n_shown, 6);
        calls[1].rule = calls[2].rule = calls[0].rule;
        calls[1].why = "on the same line";
        _cleanup_free_ char *line = message_of(&view);
        check_has(line, "(and other rules)");
        calls[1].rule = "config.json line 15";
        calls[3].rule = "config.json line 16";
        calls[4].rule = "config.json line 17";
        _cleanup_free_ char *more = message_of(&view);
        check_has(more, ", config.json line 16 and others\n");
        calls[0].why =
                "a reason that is a good deal longer than the width of a terminal, so that it is cut";
        _cleanup_free_ char *cut = message_of(&view);
        *strchr(cut, '\n') = '\0';
        check_has(cut, "… (and other rules): cloister approve 7f3a2b1c");
        check(utf8_count(cut, strlen(cut)) <= QUESTION_LINE);
}

static void test_long_reason_leaves_room_for_the_command(void)
{
        struct question_view view = view_of(1, "{}");
        calls[0].why =
                "a reason that is a good deal longer than the width of a terminal, so that it is cut";
        _cleanup_free_ char *text = message_of(&view);
        char *end = strchr(text, '\n');

        *end = '\0';
        check_has(text, "…: cloister approve 7f3a2b1c");
        check(utf8_count(text, strlen(text)) <= QUESTION_LINE);
}

/* Terminal controls, line breaks, direction overrides and zero-width characters of code. */
static void test_text_of_code_is_escaped(void)
{
        struct question_view view = view_of(1, "{\"to\":\"\\u001b[2J\xe2\x80\xae"
                                               "evil\xe2\x80\x8b\xc2\x9b\",\n\r\"x\":1}");
        calls[0].tool = "send\n2. mail.read {}\xe2\x80\xae";
        view.session = "a\nSHA-256 0";
        _cleanup_free_ char *text = message_of(&view);
        size_t lines = 0;

        for (const char *c = text; *c; c++) {
                lines += *c == '\n';
                check((unsigned char)*c >= 0x20 || *c == '\n');
        }
        check_eq_int(lines, 3);
        check(!strstr(text, "\xe2\x80\xae") && !strstr(text, "\xe2\x80\x8b") &&
              !strstr(text, "\xc2\x9b"));
        check_has(text, "\\u202eevil\\u200b\\u009b");
        check_has(text, "\\u001b[2J");
}

static void test_many_and_long_calls_fit(void)
{
        static char json[100000];
        memset(json, 'x', sizeof(json) - 1);
        memcpy(json, "{\"a\":\"", 6);
        struct question_view view = view_of(MANY, json);
        _cleanup_free_ char *text = message_of(&view);

        check(n_shown > 0 && n_shown < 10);
        check_has(text, "300 calls of mail.send");
        check_has(text, "… (cut) (99999 bytes)");
        check_has(text, " more: cloister approve 7f3a2b1c\n");
        check_has(text, "SHA-256 abc");
}

static void test_short_question_fits_three_lines(void)
{
        struct question_view view = view_of(2, "{\"to\":\"a@b\"}");
        check(question_is_short(&view));
        view = view_of(3, "{\"to\":\"a@b\"}");
        check(!question_is_short(&view));
        view = view_of(
                1,
                "{\"text\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}");
        check(!question_is_short(&view));
}

/* Code writes a line that looks like one of Cloister's, as long as a line of the terminal. */
static void test_each_line_of_code_has_the_prefix(void)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(64 * 1024);
        char json[200];

        snprintf(json, sizeof(json), "{\"a\":\"%069dSHA-256 0%066d1. mail.read\"}", 0, 0);
        const struct question_view view = view_of(1, json);
        check_eq_int(question_whole(&view, 80, &b), 0);
        check_eq_int(buffer_append(&b, "", 1), 0);
        size_t lines = 0, prefixed = 0;
        for (const char *line = buffer_bytes(&b); line && *line; lines++) {
                prefixed += strncmp(line, "   | ", 5) == 0;
                check(strncmp(line, "1. mail.read", 12) != 0);
                line = strchr(line, '\n');
                line += line != NULL;
        }
        /* The question, the call and the digest are Cloister's. */
        check(prefixed >= 2);
        check_eq_int(lines, prefixed + 3);
}

static void test_digest_changes_with_each_part(void)
{
        char sums[4][QUESTION_SHA_SIZE];

        view_of(2, "{\"a\":1}");
        check_eq_int(question_digest(list, 2, sums[0]), 0);
        calls[1].json = "{\"a\":2}";
        check_eq_int(question_digest(list, 2, sums[1]), 0);
        calls[1].tool = "read";
        check_eq_int(question_digest(list, 2, sums[2]), 0);
        check_eq_int(question_digest(list, 1, sums[3]), 0);
        for (int i = 0; i < 4; i++) {
                for (int k = 0; k < i; k++)
                        check(strcmp(sums[i], sums[k]) != 0);
        }
}

static void test_form_has_one_list_that_is_not_required(void)
{
        struct question_view view = view_of(1, "{}");
        struct client_request request;

        check_eq_int(question_form(&view, false, &request, &n_shown), 0);
        check_eq_int(request.needs, CLIENT_CAN_FORM);
        check_eq_int(buffer_append(&request.params, "", 1), 0);
        const char *text = buffer_bytes(&request.params);
        check_has(
                text,
                "\"enum\":[\"once\",\"cell\",\"session\",\"always\",\"no\"],\"default\":\"once\"");
        check(!strstr(text, "required\""));
        check(!strstr(text, "Asked again"));
        client_request_done(&request);
        check_eq_int(question_form(&view, true, &request, &n_shown), 0);
        check_has(buffer_bytes(&request.params), "Asked again");
        client_request_done(&request);
}

static void answers(const char *json, enum question_form_answer form, enum question_scope scope,
                    bool is_declined)
{
        _cleanup_json_ yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
        enum question_scope got;
        bool declined;

        check_eq_int(question_form_read(yyjson_doc_get_root(doc), &got, &declined), form);
        check_eq_int(declined, is_declined);
        if (form != FORM_MISFIT)
                check_eq_int(got, scope);
}

static void test_answers(void)
{
        answers("{\"action\":\"accept\"}", FORM_YES, SCOPE_ONCE, false);
        answers("{\"action\":\"accept\",\"content\":{}}", FORM_YES, SCOPE_ONCE, false);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":\"cell\"}}", FORM_YES, SCOPE_CELL,
                false);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":\"always\"}}", FORM_YES,
                SCOPE_ALWAYS, false);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":\"no\"}}", FORM_NO, SCOPE_NO, false);
        answers("{\"action\":\"decline\"}", FORM_NO, SCOPE_NO, true);
        answers("{\"action\":\"cancel\"}", FORM_NO, SCOPE_NO, true);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":\"Once\"}}", FORM_MISFIT, 0, false);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":1}}", FORM_MISFIT, 0, false);
        answers("{\"action\":\"accept\",\"content\":{\"scope\":\"once\",\"x\":1}}", FORM_MISFIT, 0,
                false);
        answers("{\"action\":\"accept\",\"content\":{\"x\":1}}", FORM_MISFIT, 0, false);
        answers("{\"action\":\"accept\",\"content\":[]}", FORM_MISFIT, 0, false);
        answers("{\"action\":\"yes\"}", FORM_MISFIT, 0, false);
        answers("[]", FORM_MISFIT, 0, false);
}

static void test_a_plan_counts_by_tool_and_has_two_answers(void)
{
        struct question_view view = view_of(3, "{}");
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(4096);
        struct client_request form;

        view.is_plan = true;
        calls[1].tool = "note";
        _cleanup_free_ char *text = message_of(&view);
        check(strncmp(text,
                      "plan of 3 calls: 2 mail.send, 1 mail.note: mail leaves the house: cloister",
                      74) == 0);
        check_eq_int(question_whole(&view, 80, &whole), 0);
        check(strncmp(buffer_bytes(&whole), "question 7f3a2b1c about a plan, session main\n", 45) ==
              0);
        check_eq_int(question_form(&view, false, &form, &n_shown), 0);
        check_eq_int(n_shown, 3);
        buffer_append(&form.params, "", 1);
        check(strstr(buffer_bytes(&form.params), "\"enum\":[\"once\",\"no\"]") != NULL);
        client_request_done(&form);
}

int main(void)
{
        run(test_first_line_has_all_that_matters);
        run(test_several_rules);
        run(test_long_reason_leaves_room_for_the_command);
        run(test_text_of_code_is_escaped);
        run(test_many_and_long_calls_fit);
        run(test_short_question_fits_three_lines);
        run(test_each_line_of_code_has_the_prefix);
        run(test_digest_changes_with_each_part);
        run(test_form_has_one_list_that_is_not_required);
        run(test_a_plan_counts_by_tool_and_has_two_answers);
        run(test_answers);
        return 0;
}
