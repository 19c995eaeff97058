/* What `cloister approve` shows and answers. */
#include "supervisor/broker/control-approve.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/trust/questions/approval.h"

enum { ROWS_MAX = APPROVAL_CALLS_MAX };

static void put_session(struct json_out *out, const struct question_view *view, uint64_t asked_us)
{
        json_out_text(out, "id", view->id);
        json_out_text(out, "session", view->session);
        json_out_text(out, "principal", view->principal);
        json_out_int(out, "age_ms", (int64_t)((clock_us() - asked_us) / 1000));
}

static void put_tool(struct json_out *out, const struct question_call *call)
{
        _cleanup_buffer_ struct buffer name = BUFFER_INIT(4096);

        if (buffer_printf(&name, "%s.%s", call->server, call->tool) < 0)
                json_out_fail(out, -ENOMEM);
        json_out_string(out, "tool", buffer_bytes(&name), name.length);
        json_out_text(out, "rule", call->rule);
        json_out_text(out, "why", call->why ? call->why : "");
}

int control_list_questions(const struct control_context *context, yyjson_val *params,
                           struct buffer *result, struct error *err)
{
        const struct approval_list *all = approvals_of_process();
        struct json_out out = {.to = result};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "questions", '[');
        for (const struct approvals *a = approvals_next(all, NULL); a; a = approvals_next(all, a)) {
                struct question_view view;
                uint64_t asked_us;

                approvals_view(a, &view, &asked_us);
                json_out_begin(&out, NULL, '{');
                put_session(&out, &view, asked_us);
                json_out_int(&out, "calls", (int64_t)view.n_calls);
                put_tool(&out, view.calls[0]);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return out.error < 0 ? error_errno(err, -out.error, "list the questions") : 0;
}

int control_show_question(const struct control_context *context, yyjson_val *params,
                          struct buffer *result, struct error *err)
{
        const struct approval_list *all = approvals_of_process();
        yyjson_val *id = yyjson_obj_get(params, "id");
        struct json_out out = {.to = result};
        const struct approvals *a = NULL;
        struct question_view view;
        uint64_t asked_us = 0;

        while ((a = approvals_next(all, a))) {
                approvals_view(a, &view, &asked_us);
                if (yyjson_equals_str(id, view.id))
                        break;
        }
        if (!a)
                return error_set(err, ENOENT,
                                 "no question has this id: it was answered, or has ended");
        json_out_begin(&out, NULL, '{');
        put_session(&out, &view, asked_us);
        json_out_text(&out, "sha256", view.sha256);
        json_out_begin(&out, "calls", '[');
        for (size_t i = 0; i < view.n_calls; i++) {
                json_out_begin(&out, NULL, '{');
                put_tool(&out, view.calls[i]);
                json_out_string(&out, "json", view.calls[i]->json, view.calls[i]->n);
                json_out_int(&out, "bytes", (int64_t)view.calls[i]->n);
                json_out_end(&out, '}');
        }
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        return out.error < 0 ? error_errno(err, -out.error, "show the question") : 0;
}

/* [[1, 12], [15, 15]]: sets a byte for each of these calls. */
static int take_rows(yyjson_val *list, uint8_t rows[ROWS_MAX], size_t *ret, struct error *err)
{
        size_t i, n;
        yyjson_val *range;

        if (!yyjson_is_arr(list) || yyjson_arr_size(list) > ROWS_MAX)
                return error_set(err, EINVAL, "rows: ranges of numbers of calls are needed");
        yyjson_arr_foreach (list, i, n, range) {
                int64_t first = 0, last = 0;
                json_int64(yyjson_arr_get(range, 0), &first);
                json_int64(yyjson_arr_get(range, 1), &last);
                if (first < 1 || last < first || last > ROWS_MAX)
                        return error_set(err, EINVAL,
                                         "rows: ranges of numbers of calls are needed");
                *ret = (size_t)last > *ret ? (size_t)last : *ret;
                memset(rows + first - 1, 1, (size_t)(last - first + 1));
        }
        return 0;
}

int control_answer_question(const struct control_context *context, yyjson_val *params,
                            struct buffer *result, struct error *err)
{
        static uint8_t rows[ROWS_MAX];
        const char *id = json_string(params, "id", NULL),
                   *sha256 = json_string(params, "sha256", NULL);
        struct approval_answer answer = {.note = json_string(params, "note", NULL)};
        yyjson_val *list = yyjson_obj_get(params, "rows");
        size_t n = 0;
        const char *scope = json_string(params, "scope", &n);

        answer.scope = scope ? question_scope_find(scope, n) : SCOPES;
        if (!id || !sha256 || answer.scope == SCOPES)
                return error_set(err, EINVAL, "id, sha256 and scope are needed");
        memset(rows, 0, sizeof(rows));
        int r = list ? take_rows(list, rows, &answer.last_row, err) : 0;
        if (r < 0)
                return r;
        answer.rows = list ? rows : NULL;
        r = approvals_answer(approvals_of_process(), id, sha256, &answer, err);
        return r < 0 ? r : buffer_append_text(result, "{}");
}
