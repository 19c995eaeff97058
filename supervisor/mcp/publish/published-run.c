/* Runs of what the config publishes, and answers of clients. */
#include "supervisor/mcp/publish/published-run.h"
#include "policy/config/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/client-request.h"
#include "rpc/frame.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"

enum { NAME_MAX_TEXT = 4 * RESOURCE_URI_MAX, FILENAME_MAX_TEXT = 320 };

struct published_run *published_run_new(const struct mcp_request *request,
                                        const struct config_published *entry,
                                        enum published_what what)
{
        static const struct {
                const char *kind, *method;
        } names[] = {
                [RESULT_OF_TOOL] = {"tool", "tools/call"},
                [RESULT_OF_PROMPT] = {"prompt", "prompts/get"},
                [RESULT_OF_RESOURCE] = {"resource", "resources/read"},
                [RESULT_OF_COMPLETION] = {"completion", "completion/complete"},
        };
        struct published_run *run = calloc(1, sizeof(*run));

        if (!run)
                return NULL;
        *run = (struct published_run){
                .config = config_ref(request->peer->server->config),
                .entry = entry,
                .kind = names[what].kind,
                .modern = request->era == ERA_MODERN,
                .view = {.what = what, .structured = entry->output_schema},
                .until_us = clock_us() + PUBLISHED_CALL_MS * UINT64_C(1000),
                .request = {.method = names[what].method,
                            .name = BUFFER_INIT(NAME_MAX_TEXT),
                            .arguments = BUFFER_INIT(RESULT_MAX),
                            .answers = BUFFER_INIT(ANSWERS_BYTES_MAX),
                            .questions = BUFFER_INIT(QUESTIONS_BYTES_MAX)},
                .capabilities = BUFFER_INIT(PEER_CAPABILITIES_MAX),
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
        request_call_done(&run->request);
        buffer_done(&run->capabilities);
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

/* text: JSON; NULL: no member. */
static void put_json(struct json_out *out, const char *key, const char *text)
{
        if (text)
                json_out_raw(out, key, text, strlen(text));
}

static void put_buffer(struct json_out *out, const char *key, const struct buffer *text,
                       const char *otherwise)
{
        if (text->length > 0)
                json_out_buffer(out, key, text);
        else
                put_json(out, key, otherwise);
}

/* The arguments go as JSON of their own frame: they are never part of the code. */
static int append_input(const struct published_run *run, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "kind", run->kind);
        put_buffer(&out, "arguments", &run->request.arguments, "{}");
        json_out_begin(&out, "answers", '{');
        if (run->request.answers.length > 0)
                json_out_buffer(&out, NULL, &run->request.answers);
        json_out_end(&out, '}');
        put_buffer(&out, "capabilities", &run->capabilities, "{}");
        put_json(&out, "input_schema", run->entry->input_schema);
        put_json(&out, "output_schema", run->entry->output_schema);
        put_json(&out, "settings", run->config->as.values);
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
        session_key_make(call->principal->key, call->session, key);
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
                .client_name = call->client_name,
                .trace = &call->trace,
                .done = mcp_call_done,
                .watch = mcp_call_output,
                .told = on_told,
                .client = published_may_ask(run) ? &mcp_input_client : NULL,
                .waits = mcp_call_waits,
                .data = call,
        };
        r = sessions_run(call->server->sessions, key, &cell, &call->cell, err);
        call->live.cell = r < 0 ? NULL : call->cell;
        return r;
}

static int append_answer(struct buffer *answers, const char *key, const struct buffer *answer)
{
        size_t before = answers->length;
        struct json_out out = {.to = answers, .more = before > 0};

        json_out_buffer(&out, key, answer);
        if (out.error < 0)
                answers->length = before;
        return out.error;
}

int published_answer_take(struct published_run *run, const char *key,
                          const struct client_request *question, yyjson_val *answer,
                          struct error *err)
{
        _cleanup_buffer_ struct buffer taken = BUFFER_INIT(CLIENT_ANSWER_MAX);

        int r = client_answer_take(question, answer, &taken, err);
        if (r >= 0)
                r = append_answer(&run->request.answers, key, &taken);
        if (r < 0 && !error_is_set(err))
                return error_set(err, -r, "%s",
                                 r == -EMSGSIZE ? "the answers are too large" : strerror(-r));
        return r;
}

/* ---- of modern requests ---- */

static int refuse(struct error *err, const char *why)
{
        return error_set(err, EINVAL, "%s", why);
}

static int check_responses(yyjson_val *given, struct error *err)
{
        size_t i, n;
        yyjson_val *key, *value;

        if (given && (!yyjson_is_obj(given) || yyjson_obj_size(given) > ANSWERS_MAX))
                return refuse(err, "params.inputResponses must be an object of at most 64 results");
        yyjson_obj_foreach (given, i, n, key, value) {
                if (!yyjson_is_obj(value))
                        return refuse(err, "each of params.inputResponses must be an object");
        }
        return 0;
}

/* The answers and questions of the call that the request continues. */
static int find_state(const struct mcp_request *request, struct published_run *run,
                      struct error *err)
{
        yyjson_val *state = yyjson_obj_get(request->params, "requestState");

        if (!state)
                return 0;
        int r = yyjson_is_str(state)
                        ? request_state_find(&request->peer->principal->states, &run->request,
                                             yyjson_get_str(state), yyjson_get_len(state))
                        : -ENOENT;
        if (r == -ENOENT)
                return refuse(
                        err,
                        "params.requestState is unknown, has expired, or belongs to another call: call without it");
        return r < 0 ? error_errno(err, -r, "params.requestState") : 0;
}

/* key, question: of run->request.questions. */
static int take_one(struct published_run *run, yyjson_val *key, yyjson_val *question,
                    yyjson_val *answer, struct error *err)
{
        _cleanup_client_request_ struct client_request request = {};
        size_t n = 0;
        const char *method = json_string(question, "method", &n);

        int r = client_request_restore(&request, method, n, yyjson_obj_get(question, "params"),
                                       err);
        if (r >= 0)
                r = published_answer_take(run, yyjson_get_str(key), &request, answer, err);
        return r < 0 ? error_context(err, "params.inputResponses.%s", yyjson_get_str(key)) : 0;
}

/* Returns how many answers have a question. */
static int take_known(struct published_run *run, yyjson_val *given, struct error *err)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        size_t i, n;
        yyjson_val *key, *question;
        int known = 0;

        if (run->request.questions.length > 0 &&
            json_parse(buffer_bytes(&run->request.questions), run->request.questions.length, &doc,
                       err) < 0)
                return -ENOMEM;
        yyjson_obj_foreach (yyjson_doc_get_root(doc), i, n, key, question) {
                yyjson_val *answer = yyjson_obj_get(given, yyjson_get_str(key));
                int r = answer ? take_one(run, key, question, answer, err) : 0;

                if (r < 0)
                        return r;
                known += answer != NULL;
        }
        return known;
}

static int keep_early(struct published_run *run, yyjson_val *given, struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(ANSWERS_BYTES_MAX);

        int r = json_append(&text, given);
        if (r == -EMSGSIZE)
                return refuse(err, "params.inputResponses is too large");
        if (r >= 0)
                r = json_parse(buffer_bytes(&text), text.length, &run->early, err);
        return r < 0 && !error_is_set(err) ? error_errno(err, -r, "params.inputResponses") : r;
}

int published_answers_read(const struct mcp_request *request, struct published_run *run,
                           struct error *err)
{
        yyjson_val *given = yyjson_obj_get(request->params, "inputResponses");

        if (!run->modern)
                return 0;
        int r = check_responses(given, err);
        if (r >= 0)
                r = find_state(request, run, err);
        if (r >= 0)
                r = take_known(run, given, err);
        if (r >= 0 && (size_t)r < yyjson_obj_size(given))
                r = keep_early(run, given, err);
        return r < 0 ? r : 0;
}

/* ---- of modern calls ---- */

int published_answers_early(struct published_run *run, struct error *err)
{
        yyjson_val *given = yyjson_doc_get_root(run->early);

        for (size_t i = 0; i < run->n_questions;) {
                const struct published_question *q = &run->asked[i];
                yyjson_val *answer = yyjson_obj_get(given, q->key);

                if (!answer) {
                        i++;
                        continue;
                }
                int r = published_answer_take(run, q->key, &q->ask.request, answer, err);
                if (r < 0)
                        return error_context(err, "params.inputResponses.%s", q->key);
                client_request_done(&run->asked[i].ask.request);
                memmove(&run->asked[i], &run->asked[i + 1],
                        (--run->n_questions - i) * sizeof(*run->asked));
        }
        return 0;
}

/* The form decides what fits; of other questions, the method does. */
static void put_question(struct json_out *out, const struct published_question *q)
{
        const struct client_request *request = &q->ask.request;

        json_out_begin(out, q->key, '{');
        json_out_text(out, "method", client_request_method(request));
        if (request->kind == CLIENT_FORM || request->kind == CLIENT_URL)
                json_out_buffer(out, "params", &request->params);
        json_out_end(out, '}');
}

int published_answers_keep(struct published_run *run, struct request_states *states,
                           struct buffer *to)
{
        struct json_out out = {.to = &run->request.questions};

        run->request.rounds++;
        buffer_consume(&run->request.questions, run->request.questions.length);
        json_out_begin(&out, NULL, '{');
        for (size_t i = 0; i < run->n_questions; i++)
                put_question(&out, &run->asked[i]);
        json_out_end(&out, '}');
        return out.error < 0 ? out.error : request_state_keep(states, &run->request, to);
}

/* ---- the result ---- */

/* An outcome that is rendered in the background: without pointers to the call, which may end before. */
struct run_answer {
        struct mcp_answer answer; /* first */
        struct published_view view;
        unsigned kinds;
        size_t max_output;
};

static int make_answer(struct mcp_answer *answer, struct buffer *to)
{
        struct run_answer *a = (void *)answer;

        return published_render(&answer->outcome, &a->view, a->kinds, a->max_output, to);
}

void published_run_answer(struct mcp_call *call, struct cell_outcome *outcome)
{
        static const struct mcp_answer_kind kind = {.make = make_answer};
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
