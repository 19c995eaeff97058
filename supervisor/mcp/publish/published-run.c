/* Runs of what the config publishes. */
#include "supervisor/mcp/publish/published-run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/frame.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"

enum { NAME_MAX_TEXT = 4 * RESOURCE_URI_MAX, FILENAME_MAX_TEXT = 320 };

struct published_run *published_run_new(const struct mcp_request *request,
                                        const struct config_published *entry,
                                        enum published_what what, const char *method)
{
        static const char *const kinds[] = {
                [RESULT_OF_TOOL] = "tool",
                [RESULT_OF_PROMPT] = "prompt",
                [RESULT_OF_RESOURCE] = "resource",
                [RESULT_OF_COMPLETION] = "completion",
        };
        struct published_run *run = calloc(1, sizeof(*run));

        if (!run)
                return NULL;
        *run = (struct published_run){
                .config = config_ref(request->peer->server->config),
                .entry = entry,
                .kind = kinds[what],
                .method = method,
                .modern = request->era == ERA_MODERN,
                .view = {.what = what, .structured = entry->output_schema},
                .until_us = clock_us() + PUBLISHED_CALL_MS * UINT64_C(1000),
                .name = BUFFER_INIT(NAME_MAX_TEXT),
                .arguments = BUFFER_INIT(RESULT_MAX),
                .capabilities = BUFFER_INIT(PEER_CAPABILITIES_MAX),
                .answers = BUFFER_INIT(ANSWERS_BYTES_MAX),
                .questions = BUFFER_INIT(QUESTIONS_BYTES_MAX),
                .complete = BUFFER_INIT(RESULT_MAX),
        };
        if (entry->mime_type)
                snprintf(run->view.mime_type, sizeof(run->view.mime_type), "%s", entry->mime_type);
        return run;
}

void published_run_withdraw(struct published_run *run)
{
        for (size_t i = 0; i < run->n_questions; i++) {
                struct published_question *q = &run->asked[i];

                if (q->open)
                        q->ask.withdraw(&q->ask);
                q->open = false;
                client_request_done(&q->ask.request);
        }
        run->n_questions = run->n_open = 0;
}

struct published_run *published_run_free(struct published_run *run)
{
        if (!run)
                return NULL;
        published_run_withdraw(run);
        buffer_done(&run->name);
        buffer_done(&run->arguments);
        buffer_done(&run->capabilities);
        buffer_done(&run->answers);
        buffer_done(&run->questions);
        buffer_done(&run->complete);
        yyjson_doc_free(run->early);
        config_free(run->config);
        free(run);
        return NULL;
}

void published_refuse(enum published_what what, struct reply *reply, const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};

        if (what != RESULT_OF_TOOL) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, why);
                return;
        }
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "content", '[');
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "type", "text");
        json_out_text(&out, "text", why);
        json_out_end(&out, '}');
        json_out_end(&out, ']');
        json_out_bool(&out, "isError", true);
        json_out_end(&out, '}');
        reply_made(reply, out.error, &result);
}

void published_fail(struct mcp_call *call, const char *why)
{
        published_refuse(call->run->view.what, &call->reply, why);
        mcp_call_free(call);
}

static void put_buffer(struct json_out *out, const char *key, const struct buffer *text,
                       const char *otherwise)
{
        if (text->length > 0)
                json_out_raw(out, key, buffer_bytes(text), text->length);
        else
                json_out_raw(out, key, otherwise, strlen(otherwise));
}

static void put_json(struct json_out *out, const char *key, const char *text)
{
        if (text)
                json_out_raw(out, key, text, strlen(text));
}

/* The arguments go as JSON of their own frame: they are never part of the code. */
static int append_input(const struct published_run *run, struct buffer *to)
{
        _cleanup_buffer_ struct buffer answers = BUFFER_INIT(ANSWERS_BYTES_MAX + 2);
        struct json_out out = {.to = to};

        int r = buffer_append(&answers, "{", 1);
        if (r >= 0 && run->answers.length > 0)
                r = buffer_append(&answers, buffer_bytes(&run->answers), run->answers.length);
        if (r >= 0)
                r = buffer_append(&answers, "}", 1);
        if (r < 0)
                return r;
        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "kind", run->kind);
        put_buffer(&out, "arguments", &run->arguments, "{}");
        put_buffer(&out, "answers", &answers, "{}");
        put_buffer(&out, "capabilities", &run->capabilities, "{}");
        put_json(&out, "input_schema", run->entry->input_schema);
        put_json(&out, "output_schema", run->entry->output_schema);
        put_buffer(&out, "complete", &run->complete, "null");
        if (*run->view.uri)
                json_out_text(&out, "uri", run->view.uri);
        json_out_end(&out, '}');
        return out.error;
}

static void on_told(void *data, uint8_t frame, yyjson_val *object)
{
        struct mcp_call *call = data;

        if (frame == FRAME_PROGRESS)
                live_report_progress(&call->live, object);
        else
                live_report_log(&call->live, object);
}

/* Each run has a new sandbox. */
int published_run_start(struct mcp_call *call, struct error *err)
{
        struct published_run *run = call->run;
        _cleanup_buffer_ struct buffer input = BUFFER_INIT(FRAME_PAYLOAD_MAX);
        char key[SESSION_KEY_MAX + 1], filename[FILENAME_MAX_TEXT];

        int r = append_input(run, &input);
        if (r < 0)
                return error_errno(err, -r, "the arguments");
        snprintf(filename, sizeof(filename), "<%s %s>",
                 config_published_kind_name(run->entry->kind), run->entry->name);
        mcp_call_name_session(call->session);
        session_key_make(call->principal->name, call->session, key);
        const struct cell_request cell = {
                .code = run->entry->code,
                .code_length = strlen(run->entry->code),
                .input = buffer_bytes(&input),
                .input_length = input.length,
                .filename = filename,
                .timeout_ms = run->entry->timeout_ms ? run->entry->timeout_ms
                                                     : run->config->cell_timeout_ms,
                .profile = run->entry->profile ? run->entry->profile : run->profile,
                .request_id = reply_id(&call->reply),
                .done = mcp_call_done,
                .watch = mcp_call_output,
                .told = on_told,
                .client = published_may_ask(run) ? &mcp_input_client : NULL,
                .data = call,
        };
        r = sessions_run(call->server->sessions, key, &cell, &call->cell, err);
        call->live.cell = r < 0 ? NULL : call->cell;
        return r;
}

/* ---- the result ---- */

/* An outcome that is rendered in the background: without pointers to the call, which may end before. */
struct run_answer {
        struct mcp_answer answer; /* first */
        struct published_view view;
        unsigned kinds;
        size_t max_output;
};

static void make_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;

        a->answer.r = published_render(&a->answer.outcome, &a->view, a->kinds, a->max_output,
                                       &a->answer.result);
}

static void free_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;

        mcp_answer_done(&a->answer);
        free(a);
}

static void on_answer(struct background_job *job)
{
        struct run_answer *a = (void *)job;
        struct mcp_call *call = a->answer.call;

        mcp_answer_send(&a->answer);
        free_answer(job);
        mcp_call_free(call);
}

void published_run_answer(struct mcp_call *call, struct cell_outcome *outcome)
{
        static const struct background_kind kind = {make_answer, on_answer, free_answer};
        struct run_answer *a = malloc(sizeof(*a));

        mcp_call_finish(call);
        if (!a) {
                published_fail(call, strerror(ENOMEM));
                return;
        }
        *a = (struct run_answer){
                .view = call->run->view, .kinds = call->kinds, .max_output = call->max_output};
        mcp_answer_start(&a->answer, &kind, call, outcome);
}
