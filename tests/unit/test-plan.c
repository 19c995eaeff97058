/* Plans: rows, what a call takes, differences, bounds; blank results. */
#include "supervisor/trust/plans/plan.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "supervisor/trust/plans/blank.h"
#include "tests/unit/test.h"

/* They live until the end: rows compare their values. */
static yyjson_doc *documents[64];
static size_t n_documents;

/* A call of mail.send. */
static struct plan_call call_of(enum plan_kind kind, const char *json)
{
        yyjson_doc *doc = NULL;

        check_eq_int(json_parse(json, strlen(json), &doc, NULL), 0);
        documents[n_documents++] = doc;
        return (struct plan_call){
                .kind = kind,
                .server = "mail",
                .tool = "send",
                .json = json,
                .n = strlen(json),
                .arguments = yyjson_doc_get_root(doc),
                .definition = 7,
                .rule = "config.json line 3",
                .why = "",
        };
}

static void add(struct plan *plan, struct plan_call call)
{
        struct error err = {};
        size_t row;

        check_eq_int(plan_add(plan, &call, &row, &err), 0);
        plan_at(plan, row)->is_allowed = true;
}

static enum plan_match take(struct plan *plan, struct plan_call call)
{
        const struct plan_row *row;

        return plan_take(plan, &call, &row);
}

static void test_each_row_is_taken_once_in_any_order(void)
{
        struct plan *plan = plan_new();
        struct plan_call a = call_of(PLAN_ASKS, "{\"to\":\"a\"}"),
                         b = call_of(PLAN_ASKS, "{\"to\":\"b\"}");

        add(plan, a);
        add(plan, b);
        add(plan, b);
        check_eq_int(take(plan, b), PLAN_ALLOWED);
        check_eq_int(take(plan, a), PLAN_ALLOWED);
        check_eq_int(take(plan, a), PLAN_OTHER);
        check_eq_int(take(plan, b), PLAN_ALLOWED);
        check_eq_int(take(plan, b), PLAN_OTHER);
        plan_free(plan);
}

static void test_another_text_definition_or_tool_is_another_call(void)
{
        struct plan *plan = plan_new();
        struct plan_call call = call_of(PLAN_ASKS, "{\"to\":\"a\",\"n\":1}"), other = call;

        add(plan, call);
        check_eq_int(take(plan, call_of(PLAN_ASKS, "{\"n\":1,\"to\":\"a\"}")), PLAN_OTHER);
        check_eq_int(take(plan, call_of(PLAN_ASKS, "{\"to\":\"a\",\"n\":1.0}")), PLAN_OTHER);
        check_eq_int(take(plan, call_of(PLAN_ASKS, "{\"to\":\"a\",\"n\":1,\"cc\":\"x\"}")),
                     PLAN_OTHER);
        other.definition = 8;
        check_eq_int(take(plan, other), PLAN_OTHER);
        other = call;
        other.tool = "sent";
        check_eq_int(take(plan, other), PLAN_OTHER);
        other = call;
        other.kind = PLAN_SENDS;
        check_eq_int(take(plan, other), PLAN_OTHER);
        check_eq_int(take(plan, call), PLAN_ALLOWED);
        plan_free(plan);
}

static void test_a_no_is_a_no(void)
{
        struct plan *plan = plan_new();
        struct plan_call call = call_of(PLAN_ASKS, "{}");

        add(plan, call);
        add(plan, call);
        plan_at(plan, 0)->is_allowed = false;
        check_eq_int(take(plan, call), PLAN_ALLOWED);
        check_eq_int(take(plan, call), PLAN_REFUSED);
        check_eq_int(take(plan, call), PLAN_REFUSED);
        plan_free(plan);

        /* Calls that the rules allow are in the question of a plan, too. */
        size_t row;
        struct error err = {};
        plan = plan_new();
        call = call_of(PLAN_SENDS, "{}");
        check_eq_int(plan_add(plan, &call, &row, &err), 0);
        check(plan_at(plan, row)->is_allowed);
        plan_at(plan, row)->is_allowed = false;
        check_eq_int(take(plan, call), PLAN_REFUSED);
        plan_free(plan);
}

static void test_vary_is_left_out(void)
{
        struct plan *plan = plan_new();
        struct pointer vary[2] = {};
        struct error err = {};
        static const char *const texts[] = {
                "{\"id\":1,\"to\":[{\"k\":1,\"v\":\"x\"},{\"k\":2,\"v\":\"y\"}]}",
                "{\"id\":{\"a\":[2]},\"to\":[{\"k\":9,\"v\":\"x\"},{\"k\":\"8\",\"v\":\"y\"}]}",
                "{\"id\":1,\"to\":[{\"k\":1,\"v\":\"x\"},{\"k\":2,\"v\":\"z\"}]}",
                "{\"id\":1,\"to\":[{\"k\":1,\"v\":\"x\"}]}",
                "{\"to\":[{\"k\":1,\"v\":\"x\"},{\"k\":2,\"v\":\"y\"}],\"id\":1}",
        };

        check_eq_int(pointer_parse("/id", 3, &vary[0], &err), 0);
        check_eq_int(pointer_parse("/to/*/k", 7, &vary[1], &err), 0);
        struct plan_call calls[5];
        for (size_t i = 0; i < 5; i++) {
                calls[i] = call_of(PLAN_ASKS, texts[i]);
                calls[i].vary = vary;
                calls[i].n_vary = 2;
        }
        add(plan, calls[0]);
        for (size_t i = 2; i < 5; i++)
                check_eq_int(take(plan, calls[i]), PLAN_OTHER);
        check_eq_int(take(plan, calls[1]), PLAN_ALLOWED);
        pointer_done(&vary[0]);
        pointer_done(&vary[1]);
        plan_free(plan);
}

/* Two documents whose texts run into each other must not be compared as equal. */
static void test_compared_values_are_apart(void)
{
        struct plan *plan = plan_new();
        struct pointer vary = {};
        struct error err = {};
        struct plan_call a = call_of(PLAN_ASKS, "{\"a\":\"x\",\"b\":\"yz\",\"id\":1}"),
                         b = call_of(PLAN_ASKS, "{\"a\":\"xy\",\"b\":\"z\",\"id\":1}"),
                         c = call_of(PLAN_ASKS, "{\"a\":\"x\",\"b\":[\"yz\"],\"id\":1}");

        check_eq_int(pointer_parse("/id", 3, &vary, &err), 0);
        a.vary = b.vary = c.vary = &vary;
        a.n_vary = b.n_vary = c.n_vary = 1;
        add(plan, a);
        check_eq_int(take(plan, b), PLAN_OTHER);
        check_eq_int(take(plan, c), PLAN_OTHER);
        check_eq_int(take(plan, a), PLAN_ALLOWED);
        pointer_done(&vary);
        plan_free(plan);
}

static void test_reads_are_answered_once_each(void)
{
        struct plan *plan = plan_new();
        struct plan_call call = call_of(PLAN_READS, "{}");
        const struct plan_row *row;

        add(plan, call);
        add(plan, call);
        add(plan, call);
        plan_keep_result(plan, 0, "{1}", 3);
        plan_keep_result(plan, 2, "{3}", 3);
        check_eq_int(plan_take(plan, &call, &row), PLAN_ANSWERED);
        check_eq_str(row->result, "{1}");
        check_eq_int(plan_take(plan, &call, &row), PLAN_ANSWERED);
        check_eq_str(row->result, "{3}");
        check_eq_int(plan_take(plan, &call, &row), PLAN_OTHER);
        plan_free(plan);
}

static void test_differences(void)
{
        struct plan *plan = plan_new();
        struct plan_call first = call_of(PLAN_ASKS, "{\"to\":\"a\",\"text\":{\"x\":1}}"), other;
        char text[PLAN_DIFFERENCE_MAX];

        plan_describe_difference(plan, &first, text);
        check_eq_str(text, "the plan has no call of mail.send");
        add(plan, first);
        other = call_of(PLAN_ASKS, "{\"to\":\"a\",\"text\":{\"x\":2}}");
        plan_describe_difference(plan, &other, text);
        check_eq_str(text, "/text/x is not as in row 1 of the plan");
        other = call_of(PLAN_ASKS, "{\"text\":{\"x\":1},\"to\":\"a\"}");
        plan_describe_difference(plan, &other, text);
        check_eq_str(text, "the text of the arguments is not as in row 1 of the plan");
        other = first;
        other.definition = 1;
        plan_describe_difference(plan, &other, text);
        check_eq_str(text, "the rule or the tool is not as in row 1 of the plan");
        check_eq_int(take(plan, first), PLAN_ALLOWED);
        plan_describe_difference(plan, &first, text);
        check_eq_str(text, "the plan has no more such calls of mail.send");
        plan_free(plan);
}

static void test_bounds(void)
{
        struct plan *plan = plan_new();
        struct plan_call call = call_of(PLAN_ASKS, "{}");
        struct error err = {};
        size_t row;

        for (int i = 0; i < PLAN_ROWS_MAX; i++)
                add(plan, call);
        check(!plan_fault(plan));
        check_eq_int(plan_add(plan, &call, &row, &err), -E2BIG);
        check(strstr(plan_fault(plan), "1,000 calls") != NULL);
        plan_free(plan);

        _cleanup_free_ char *text = malloc(PLAN_ASKED_BYTES_MAX);
        memset(text, ' ', PLAN_ASKED_BYTES_MAX);
        call.json = text;
        call.n = PLAN_ASKED_BYTES_MAX;
        plan = plan_new();
        add(plan, call);
        call.n = 1;
        check_eq_int(plan_add(plan, &call, &row, &err), -E2BIG);
        check(strstr(plan_fault(plan), "4 MiB") != NULL);
        call.kind = PLAN_SENDS;
        check_eq_int(plan_add(plan, &call, &row, &err), -E2BIG);
        /* Calls that are sent in the copy have the larger bound. */
        plan_free(plan);
        plan = plan_new();
        call.kind = PLAN_READS;
        call.n = PLAN_ASKED_BYTES_MAX - 1024;
        add(plan, call);
        check_eq_int(plan_add(plan, &call, &row, &err), 0);
        check_eq_int(plan_add(plan, &call, &row, &err), -E2BIG);
        check(strstr(plan_fault(plan), "16 MiB") != NULL);
        plan_free(plan);
        /* A result without room is not kept, and the plan stays whole. */
        plan = plan_new();
        call = call_of(PLAN_READS, "{}");
        add(plan, call);
        _cleanup_free_ char *large = calloc(1, PLAN_BYTES_MAX);
        size_t room = plan_room(plan);
        check(room < PLAN_BYTES_MAX && room > PLAN_BYTES_MAX - 1024);
        plan_keep_result(plan, 0, large, room + 1);
        check(!plan_at(plan, 0)->result && !plan_fault(plan));
        check_eq_int(take(plan, call), PLAN_OTHER);
        plan_keep_result(plan, 0, large, room);
        check_eq_int(plan_room(plan), 0);
        check_eq_int(take(plan, call), PLAN_ANSWERED);
        plan_free(plan);
}

static void test_what_a_result_says(void)
{
        struct plan *plan = plan_new();
        _cleanup_buffer_ struct buffer made = BUFFER_INIT(4096), only = BUFFER_INIT(4096),
                                       lines = BUFFER_INIT(4096);

        struct plan_call sends = call_of(PLAN_SENDS, "{}");
        sends.unsure = 7;
        add(plan, call_of(PLAN_ASKS, "{\"to\":\"\\u001ba\"}"));
        add(plan, sends);
        add(plan, call_of(PLAN_READS, "{}"));
        check_eq_int(take(plan, call_of(PLAN_SENDS, "{}")), PLAN_ALLOWED);
        plan_note_other(plan);
        check_eq_int(plan_put(plan, false, &made), 0);
        check_eq_int(plan_put(plan, true, &only), 0);
        check_eq_int(plan_list(plan, 4096, &lines), 0);
        buffer_append(&made, "", 1);
        buffer_append(&only, "", 1);
        buffer_append(&lines, "", 1);
        check_eq_str(buffer_bytes(&made),
                     "{\"planned\":2,\"reads\":1,\"made\":1,\"other\":1,\"left_out\":1}");
        check(strstr(buffer_bytes(&only),
                     "{\"server\":\"mail\",\"tool\":\"send\",\"decision\":\"asks\",") != NULL);
        check(strstr(buffer_bytes(&only), "\"decision\":\"read\"") != NULL);
        check(strstr(buffer_bytes(&only), "\"unsure\":7") != NULL);
        check_eq_str(
                buffer_bytes(&lines),
                "1. mail.send {\"to\":\"\\u001ba\"} (16 bytes) asks\n2. mail.send {} (2 bytes), unsure: line 7\n");
        plan_free(plan);
}

static void check_blank(const char *tool, const char *planned, const char *expected)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(8192);
        _cleanup_json_ yyjson_doc *doc = NULL;

        check_eq_int(json_parse(tool, strlen(tool), &doc, NULL), 0);
        check_eq_int(blank_result(yyjson_doc_get_root(doc), planned, &b), 0);
        buffer_append(&b, "", 1);
        check_eq_str(buffer_bytes(&b), expected);
}

static void test_blank_results(void)
{
        check_blank("{}", NULL, "{\"content\":[{\"type\":\"text\",\"text\":\"\"}]}");
        check_blank(
                "{}", "{\"ok\":true}",
                "{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"ok\\\":true}\"}],\"structuredContent\":{\"ok\":true}}");
        check_blank("{}", "{\"content\":[]}", "{\"content\":[]}");
        check_blank(
                "{\"outputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"object\","
                "\"properties\":{\"c\":{\"enum\":[5,6]}},\"required\":[\"c\"]},\"d\":{\"type\":\"array\"},\"e\":{}},"
                "\"required\":[\"a\",\"b\",\"d\"]}}",
                NULL,
                "{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"a\\\":\\\"\\\",\\\"b\\\":{\\\"c\\\":5},\\\"d\\\":[]}\"}],"
                "\"structuredContent\":{\"a\":\"\",\"b\":{\"c\":5},\"d\":[]}}");
}

int main(void)
{
        run(test_each_row_is_taken_once_in_any_order);
        run(test_another_text_definition_or_tool_is_another_call);
        run(test_a_no_is_a_no);
        run(test_vary_is_left_out);
        run(test_compared_values_are_apart);
        run(test_reads_are_answered_once_each);
        run(test_differences);
        run(test_bounds);
        run(test_what_a_result_says);
        run(test_blank_results);
        while (n_documents > 0)
                yyjson_doc_free(documents[--n_documents]);
        return 0;
}
