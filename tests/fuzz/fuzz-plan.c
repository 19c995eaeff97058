/*
 * A plan: {"vary": [pointer…], "calls": […], "followed": […], "tools": […]}. Calls are arguments as code wrote them: the first list
 * fills the plan, the second one follows it. Each row is taken once at most, and by equal arguments only; what is shown is JSON, or
 * lines without control characters. Each tool has a blank result that is JSON. Accepted is a plan whose calls were all taken.
 */
#include "supervisor/trust/plans/plan.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"
#include "supervisor/trust/plans/blank.h"
#include "supervisor/trust/questions/approval.h"

enum { CALLS_TRIED = 32, POINTERS_TRIED = 8, LINES_TRIED = 4096 };

static struct pointer vary[POINTERS_TRIED];
static size_t n_vary;

static void read_pointers(yyjson_val *list)
{
        yyjson_val *text;
        size_t i, n;

        n_vary = 0;
        yyjson_arr_foreach (list, i, n, text) {
                struct error err = {};
                if (n_vary < POINTERS_TRIED && yyjson_is_str(text) &&
                    pointer_parse(yyjson_get_str(text), yyjson_get_len(text), &vary[n_vary],
                                  &err) >= 0)
                        n_vary++;
        }
}

/* Returns whether the value is arguments of a call. */
static bool read_call(yyjson_val *arguments, char **json, struct plan_call *ret)
{
        size_t n = 0;

        if (!yyjson_is_obj(arguments) || json_write(arguments, json, &n) < 0)
                return false;
        *ret = (struct plan_call){
                .kind = (enum plan_kind)(yyjson_obj_size(arguments) % PLAN_KINDS),
                .server = "s",
                .tool = "t",
                .json = *json,
                .n = n,
                .arguments = arguments,
                .vary = vary,
                .n_vary = n_vary,
                .rule = "",
                .why = "",
                .unsure = (uint32_t)n % 3,
        };
        return true;
}

static void fill(struct plan *plan, yyjson_val *list)
{
        yyjson_val *arguments;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, arguments) {
                _cleanup_free_ char *json = NULL;
                struct error err = {};
                struct plan_call call;
                size_t row;
                if (i >= CALLS_TRIED || !read_call(arguments, &json, &call) ||
                    plan_add(plan, &call, &row, &err) < 0)
                        continue;
                assert(row == plan_count(plan) - 1);
                plan_at(plan, row)->is_allowed = row % 4 != 3;
                if (call.kind == PLAN_READS)
                        plan_keep_result(plan, row, json, call.n);
        }
}

/* Without pointers in "vary" equal calls have equal texts. */
static void check_taken(const struct plan_call *call, const struct plan_row *row,
                        enum plan_match match)
{
        assert(row->kind == call->kind);
        assert(match == PLAN_REFUSED || row->is_used);
        assert(match == PLAN_REFUSED || row->kind == PLAN_READS || row->is_allowed);
        assert(n_vary > 0 || (row->n == call->n && memcmp(row->json, call->json, call->n) == 0));
}

static void check_text(const char *text, size_t n)
{
        assert(utf8_is_valid(text, n));
        for (size_t i = 0; i < n; i++)
                assert((unsigned char)text[i] >= 0x20 || text[i] == '\n');
}

static size_t follow(struct plan *plan, yyjson_val *list)
{
        yyjson_val *arguments;
        size_t i, n, taken = 0;

        yyjson_arr_foreach (list, i, n, arguments) {
                char difference[PLAN_DIFFERENCE_MAX];
                _cleanup_free_ char *json = NULL;
                const struct plan_row *row = NULL;
                struct plan_call call;
                if (i >= 2 * CALLS_TRIED || !read_call(arguments, &json, &call))
                        continue;
                enum plan_match match = plan_take(plan, &call, &row);
                if (match == PLAN_OTHER) {
                        plan_note_other(plan);
                        plan_describe_difference(plan, &call, difference);
                        assert(strlen(difference) > 0 &&
                               utf8_is_valid(difference, strlen(difference)));
                } else {
                        check_taken(&call, row, match);
                        taken += match != PLAN_REFUSED;
                }
        }
        assert(taken <= plan_count(plan));
        return taken;
}

static void check_json(const struct buffer *text)
{
        _cleanup_json_ yyjson_doc *doc = NULL;

        assert(json_parse(buffer_bytes(text), text->length, &doc, NULL) >= 0);
        assert(yyjson_is_obj(yyjson_doc_get_root(doc)));
}

static void show(const struct plan *plan)
{
        _cleanup_buffer_ struct buffer made = BUFFER_INIT(1 << 20), only = BUFFER_INIT(1 << 20),
                                       lines = BUFFER_INIT(LINES_TRIED + 1024);

        assert(plan_put(plan, false, &made) >= 0 && plan_put(plan, true, &only) >= 0);
        check_json(&made);
        check_json(&only);
        if (plan_list(plan, LINES_TRIED, &lines) >= 0 && lines.length > 0)
                check_text(buffer_bytes(&lines), lines.length);
}

static void make_blanks(yyjson_val *tools)
{
        yyjson_val *tool;
        size_t i, n;

        yyjson_arr_foreach (tools, i, n, tool) {
                _cleanup_buffer_ struct buffer text = BUFFER_INIT(1 << 20);
                if (blank_result(tool, NULL, &text) >= 0)
                        check_json(&text);
        }
}

/* A person's answer about rows. */
static void answer(yyjson_val *word)
{
        static uint8_t rows[APPROVAL_CALLS_MAX];
        struct approval_answer ret;
        struct error err = {};

        if (!yyjson_is_str(word) || strlen(yyjson_get_str(word)) != yyjson_get_len(word) ||
            approval_answer_read(yyjson_get_str(word), rows, &ret, &err) < 0)
                return;
        assert(!ret.rows || (ret.last_row >= 1 && ret.last_row <= APPROVAL_CALLS_MAX));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct plan *plan = plan_new();

        if (!plan || json_parse((const char *)data, n, &doc, NULL) < 0) {
                plan_free(plan);
                return false;
        }
        yyjson_val *root = yyjson_doc_get_root(doc);
        read_pointers(yyjson_obj_get(root, "vary"));
        fill(plan, yyjson_obj_get(root, "calls"));
        show(plan);
        size_t taken = follow(plan, yyjson_obj_get(root, "followed")), rows = plan_count(plan);
        show(plan);
        make_blanks(yyjson_obj_get(root, "tools"));
        answer(yyjson_obj_get(root, "answer"));
        for (size_t i = 0; i < n_vary; i++)
                pointer_done(&vary[i]);
        plan_free(plan);
        return rows > 0 && taken == rows;
}

FUZZ_TARGET
