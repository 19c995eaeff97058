/* The ends of runs. */
#include "supervisor/mcp/publish/published-ask.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/publish/published-answers.h"
#include "supervisor/mcp/publish/published-run.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/task.h"

enum {
        PUBLISHED_ROUNDS_MAX = 16, /* runs of one call */
        WHY_MAX = 2048,
        CHANGES_MAX = 100,
};

/* ---- capabilities ---- */

/* The capabilities that a question may need, and the object that names them in an error. */
static const struct need {
        const char *name;
        unsigned can;
        const char *required;
} needs[] = {
        {"elicitation", CLIENT_CAN_FORM, "{\"elicitation\":{}}"},
        {"elicitation.url", CLIENT_CAN_URL, "{\"elicitation\":{\"url\":{}}}"},
        {"sampling", CLIENT_CAN_SAMPLE, "{\"sampling\":{}}"},
        {"sampling.tools", CLIENT_CAN_SAMPLE_TOOLS, "{\"sampling\":{\"tools\":{}}}"},
        {"roots", CLIENT_CAN_ROOTS, "{\"roots\":{}}"},
};

/* The first that a client cannot do, or NULL. */
static const struct need *find_missing(unsigned wanted, unsigned can)
{
        for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
                if (wanted & needs[i].can & ~can)
                        return &needs[i];
        }
        return NULL;
}

/* A modern client gets an error with the capability, a legacy one the error of the code. */
static void answer_lacks(struct mcp_call *call, const struct need *need)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(CLIENT_FORM_MAX);
        struct json_out out = {.to = &data};
        char why[128];

        snprintf(why, sizeof(why), "the client has not declared the capability %s", need->name);
        if (!call->run->modern) {
                published_fail(call, why);
                return;
        }
        json_out_begin(&out, NULL, '{');
        json_out_raw(&out, "requiredCapabilities", need->required, strlen(need->required));
        json_out_end(&out, '}');
        reply_error_data(&call->reply, MCP_CLIENT_LACKS, why, out.error >= 0 ? &data : NULL);
        mcp_call_free(call);
}

/* ---- questions ---- */

static bool is_key(yyjson_val *key)
{
        const char *text = yyjson_get_str(key);
        size_t n = yyjson_get_len(key);

        return n > 0 && n <= PUBLISHED_KEY_MAX &&
               strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
                       n;
}

static bool is_repeated(const struct published_run *run, const char *key)
{
        for (size_t i = 0; i < run->n_questions; i++) {
                if (strcmp(run->asked[i].key, key) == 0)
                        return true;
        }
        return false;
}

static void run_again(struct mcp_call *call)
{
        struct error err = {};

        call->run->rounds++;
        published_run_withdraw(call->run);
        if (clock_us() > call->run->until_us)
                published_fail(call, "the call took too long");
        else if (published_run_start(call, &err) < 0)
                published_fail(call, err.text);
}

/* A legacy client has answered, or cannot. The call may be about to end. */
static void on_answer(struct client_ask *ask, yyjson_val *result, const char *why)
{
        struct published_question *q = (void *)ask;
        struct mcp_call *call = q->call;
        struct published_run *run = call->run;
        struct error err = {};

        q->open = false;
        run->n_open--;
        if (call->cancelled)
                return;
        if (!why && published_answer_take(run, q->key, &ask->request, result, &err) < 0)
                why = err.text;
        if (why)
                published_fail(call, why);
        else if (run->n_open == 0)
                run_again(call);
}

/* Takes the questions of the code, as the client will get them. Returns why they cannot be asked, or NULL. */
static const char *take_questions(struct mcp_call *call, yyjson_val *requests, struct error *err)
{
        struct published_run *run = call->run;
        yyjson_val *key, *request;
        size_t i, n;

        if (run->rounds + 1 >= PUBLISHED_ROUNDS_MAX)
                return "the code asks the client again and again";
        if (yyjson_obj_size(requests) > PUBLISHED_REQUESTS_MAX)
                return "the code asks too many questions at once";
        yyjson_obj_foreach (requests, i, n, key, request) {
                struct published_question *q = &run->asked[run->n_questions];
                size_t length = 0;
                const char *method = json_string(request, "method", &length);

                if (!is_key(key) || !method)
                        return "a question of the code has another form than MCP's";
                if (is_repeated(run, yyjson_get_str(key)))
                        return "two questions of the code have the same key";
                *q = (struct published_question){.call = call};
                memcpy(q->key, yyjson_get_str(key), yyjson_get_len(key) + 1);
                run->n_questions++;
                q->ask.answered = on_answer;
                if (client_request_read(&q->ask.request, run->entry->name, method, length,
                                        yyjson_obj_get(request, "params"), err) < 0) {
                        error_context(err, "the question %s of the code", q->key);
                        return err->text;
                }
        }
        return NULL;
}

/* Returns 0, or -EMSGSIZE: the questions, or the arguments, are too large. */
static int append_questions(struct mcp_call *call, struct buffer *to)
{
        struct published_run *run = call->run;
        _cleanup_buffer_ struct buffer state = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "inputRequests", '{');
        for (size_t i = 0; i < run->n_questions; i++) {
                const struct client_request *request = &run->asked[i].ask.request;

                json_out_begin(&out, run->asked[i].key, '{');
                json_out_text(&out, "method", client_request_method(request));
                json_out_buffer(&out, "params", &request->params);
                json_out_end(&out, '}');
        }
        json_out_end(&out, '}');
        int r = published_answers_keep(run, &call->principal->states, &state);
        json_out_buffer(&out, "requestState", &state);
        json_out_end(&out, '}');
        return r < 0 ? r : out.error;
}

static void ask_modern(struct mcp_call *call)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (append_questions(call, &result) < 0) {
                published_fail(call, "the questions of the code, or the arguments, are too large");
                return;
        }
        call->reply.input_required = true;
        reply_result(&call->reply, &result);
        mcp_call_free(call);
}

static void ask_legacy(struct mcp_call *call)
{
        struct published_run *run = call->run;
        struct error err = {};

        for (size_t i = 0; i < run->n_questions; i++) {
                struct published_question *q = &run->asked[i];

                if (mcp_input_ask(call, &q->ask, &err) < 0) {
                        published_fail(call, err.text);
                        return;
                }
                q->open = true;
                run->n_open++;
        }
}

/* Asks for what has no answer yet. */
static void ask_rest(struct mcp_call *call)
{
        unsigned wanted = 0;

        for (size_t i = 0; i < call->run->n_questions; i++)
                wanted |= call->run->asked[i].ask.request.needs;
        const struct need *missing = find_missing(wanted, call->can);
        if (missing)
                answer_lacks(call, missing);
        else if (call->modern && !task_is_announced(&call->reply))
                ask_modern(call);
        else
                ask_legacy(call);
}

static void ask(struct mcp_call *call, yyjson_val *requests)
{
        struct error err = {};

        const char *why = published_may_ask(call->run) ? take_questions(call, requests, &err)
                                                       : "a completion cannot ask the client";
        if (why) {
                published_fail(call, why);
        } else if (published_answers_early(call->run, &err) < 0) {
                reply_error(&call->reply, JSONRPC_INVALID_PARAMS, err.text);
                mcp_call_free(call);
        } else if (call->run->n_questions == 0) {
                run_again(call);
        } else {
                ask_rest(call);
        }
}

/* ---- changes ---- */

static void apply_changes(struct mcp_call *call, yyjson_val *output)
{
        yyjson_val *shown = yyjson_obj_get(output, "shown"), *value;
        yyjson_val *updated = yyjson_obj_get(output, "updated");
        size_t i, n;

        yyjson_arr_foreach (shown, i, n, value) {
                const char *name = yyjson_get_str(yyjson_arr_get_first(value));
                if (name && i < CHANGES_MAX)
                        published_show(call->server, call->principal, name,
                                       yyjson_is_true(yyjson_arr_get_last(value)));
        }
        if (yyjson_arr_size(shown) > 0)
                subscriptions_lists_changed(call->server, call->principal);
        yyjson_arr_foreach (updated, i, n, value) {
                struct resource_uri uri;

                if (yyjson_is_str(value) && i < CHANGES_MAX &&
                    published_take_uri(call->server, call->principal, yyjson_get_str(value),
                                       yyjson_get_len(value), &uri))
                        subscriptions_updated(call->server, call->principal, &uri);
        }
}

static const struct need *find_lack(const struct cell_outcome *o)
{
        yyjson_val *lacks = yyjson_obj_get(o->output, "lacks");

        for (size_t i = 0; i < ARRAY_SIZE(needs) && o->status == CELL_ERROR; i++) {
                if (yyjson_equals_str(lacks, needs[i].name))
                        return &needs[i];
        }
        return NULL;
}

void published_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *o)
{
        const struct need *lacking = find_lack(o);
        char why[WHY_MAX];

        if (o->status == CELL_OK && yyjson_obj_size(o->requests) > 0) {
                call->live.cell = NULL;
                ask(call, o->requests);
                return;
        }
        if (lacking && call->run->modern) {
                answer_lacks(call, lacking);
                return;
        }
        const char *failure = published_failure(o, why, sizeof(why));
        if (failure && call->run->view.what != RESULT_OF_TOOL) {
                published_fail(call, failure);
                return;
        }
        if (!failure)
                apply_changes(call, o->output);
        published_run_answer(call, o);
}
