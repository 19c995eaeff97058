/* The methods of `cloister approve`. */
#include "supervisor/broker/control-approve.h"

#include <errno.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/trust/questions/approval.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };

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
        for (struct approvals *a = approvals_next(all, NULL); a; a = approvals_next(all, a)) {
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
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(TEXT_MAX);
        yyjson_val *id = yyjson_obj_get(params, "id");
        struct json_out out = {.to = result};
        struct approvals *a = NULL;
        struct question_view view;
        uint64_t asked_us = 0;
        int64_t columns = 80;

        json_int64(yyjson_obj_get(params, "columns"), &columns);
        while ((a = approvals_next(all, a))) {
                approvals_view(a, &view, &asked_us);
                if (yyjson_equals_str(id, view.id))
                        break;
        }
        if (!a)
                return error_set(err, ENOENT,
                                 "no question has this id: it was answered, or has ended");
        int r = question_whole(&view, columns > 0 ? (size_t)columns : 0, &text);
        if (r < 0)
                json_out_fail(&out, r);
        json_out_begin(&out, NULL, '{');
        put_session(&out, &view, asked_us);
        json_out_int(&out, "calls", (int64_t)view.n_calls);
        put_tool(&out, view.calls[0]);
        json_out_text(&out, "sha256", view.sha256);
        json_out_string(&out, "text", buffer_bytes(&text), text.length);
        json_out_end(&out, '}');
        return out.error < 0 ? error_errno(err, -out.error, "show the question") : 0;
}

int control_answer_question(const struct control_context *context, yyjson_val *params,
                            struct buffer *result, struct error *err)
{
        static uint8_t rows[APPROVAL_CALLS_MAX];
        const char *id = json_string(params, "id", NULL),
                   *sha256 = json_string(params, "sha256", NULL),
                   *word = json_string(params, "answer", NULL);
        struct approval_answer answer;

        if (!id || !sha256 || !word)
                return error_set(err, EINVAL, "id, sha256 and answer are needed");
        int r = approval_answer_read(word, rows, &answer, err);
        if (r < 0)
                return r;
        answer.note = json_string(params, "note", NULL);
        r = approvals_answer(approvals_of_process(), APPROVAL_BY_TERMINAL, id, sha256, &answer,
                             err);
        return r < 0 ? r : buffer_append_text(result, "{}");
}
