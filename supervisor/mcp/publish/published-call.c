/* Calls of what the config publishes. */
#include "supervisor/mcp/publish/published-call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/publish/published-run.h"
#include "supervisor/mcp/publish/run-tool.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tasks/task.h"
#include "supervisor/session/cell/result-images.h"

enum {
        PUBLISHED_ROUNDS_MAX = 16, /* runs of one call */
        WHY_MAX = 2048,
        CHANGES_MAX = 100,
        COMPLETIONS_MAX = 100,
};

void published_reply_list(const struct mcp_request *request, enum config_published_kind kind,
                          const char *key, const char *first, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};

        if (!mcp_request_is_first_page(request)) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "unknown cursor: the list has one page");
                return;
        }
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, key, '[');
        if (first)
                json_out_raw(&out, NULL, first, strlen(first));
        published_put(request->peer->principal, kind, &out);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        reply->caching = &caching_lists;
        reply_made(reply, out.error, &result);
}

void published_list_prompts(const struct mcp_request *request, struct reply *reply)
{
        if (mcp_request_is_first_page(request))
                subscription_list_sent(request, LIST_PROMPTS);
        published_reply_list(request, PUBLISHED_PROMPT, "prompts", NULL, reply);
}

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

static void run_again(struct mcp_call *call)
{
        struct error err = {};

        call->run->request.rounds++;
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

        if (run->request.rounds + 1 >= PUBLISHED_ROUNDS_MAX)
                return "the code asks the client again and again";
        if (json_check_names(requests, NULL, err) < 0)
                return err->text;
        if (yyjson_obj_size(requests) > PUBLISHED_REQUESTS_MAX)
                return "the code asks too many questions at once";
        yyjson_obj_foreach (requests, i, n, key, request) {
                struct published_question *q = &run->asked[run->n_questions];
                size_t length = 0;
                const char *method = json_string(request, "method", &length);

                if (!is_key(key) || !method)
                        return "a question of the code has another form than MCP's";
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

static void ask(struct mcp_call *call, const struct cell_outcome *o)
{
        struct error err = {};
        const char *why = NULL;

        if (!published_may_ask(call->run))
                why = "a completion cannot ask the client";
        else if (result_images_correct_questions(o, &err) < 0)
                why = err.text;
        else
                why = take_questions(call, o->requests, &err);
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
                        published_show(call->principal, name,
                                       yyjson_is_true(yyjson_arr_get_last(value)));
        }
        if (yyjson_arr_size(shown) > 0)
                subscriptions_lists_changed(call->server, call->principal);
        yyjson_arr_foreach (updated, i, n, value) {
                struct resource_uri uri;

                if (yyjson_is_str(value) && i < CHANGES_MAX &&
                    published_take_uri(call->principal, yyjson_get_str(value),
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

/* Its questions go to the client, its changes take effect, its result is the answer. */
static void on_ended(struct mcp_call *call, uint64_t number, struct cell_outcome *o)
{
        const struct need *lacking = find_lack(o);
        char why[WHY_MAX];

        if (o->status == CELL_OK && yyjson_obj_size(o->requests) > 0) {
                call->live.cell = NULL;
                ask(call, o);
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

static void on_done(struct mcp_call *call)
{
        call->run = published_run_free(call->run);
}

static const struct mcp_call_kind published_kind = {on_ended, on_done};

/* Copies the client's capabilities. An object that is too large counts as empty. */
static void take_capabilities(const struct mcp_request *request, struct published_run *run)
{
        const struct buffer *legacy = &request->peer->capabilities;
        yyjson_val *meta = yyjson_obj_get(request->params, "_meta");

        if (run->modern)
                json_append(&run->capabilities, yyjson_obj_get(meta, META_CAPABILITIES));
        else if (legacy->length > 0)
                buffer_append(&run->capabilities, buffer_bytes(legacy), legacy->length);
}

/* Takes ownership of the run and of the reply. */
static void start(const struct mcp_request *request, struct published_run *run, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        const struct config_profile *own = mcp_profile(request->peer, request->era);
        uint64_t digest = mcp_input_digest_published(run->request.method, &run->request.name,
                                                     &run->request.arguments);
        char session[SESSION_NAME_MAX + 1];
        struct service_refusal refusal;
        struct error err = {};

        if (run->view.what == RESULT_OF_RESOURCE)
                reply->caching = &caching_none;
        if (run->modern && mcp_input_resume(request, digest, reply)) {
                published_run_free(run);
                return;
        }
        if (published_answers_read(request, run, &err) < 0) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, err.text);
                published_run_free(run);
                return;
        }
        take_capabilities(request, run);
        if (own)
                snprintf(run->profile, sizeof(run->profile), "%s", own->name);
        mcp_call_name_session(session);
        int r = mcp_call_admit(request->peer, session, 1, &refusal);
        struct mcp_call *call = r < 0 ? NULL
                                      : mcp_call_new(request, &published_kind, session,
                                                     server->config->output_characters, reply);
        if (!call) {
                if (r >= 0 || !reply_refuse(reply, &refusal))
                        published_refuse(run->view.what, reply,
                                         r < 0 ? refusal.text : strerror(ENOMEM));
                published_run_free(run);
                return;
        }
        call->run = run;
        run->call = call;
        call->suspension.digest = digest;
        call->live.published = true;
        if (published_run_start(call, &err) < 0)
                published_fail(call, err.text);
        else if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0)
                log_warning("a call goes without progress: out of memory");
}

/* A run with its name, which a state of it has too; NULL after it has answered an error. */
static struct published_run *begin(const struct mcp_request *request,
                                   const struct config_published *entry, enum published_what what,
                                   struct reply *reply)
{
        struct published_run *run = published_run_new(request, entry, what);

        if (!run || buffer_append_text(&run->request.name, entry->name) < 0) {
                published_run_free(run);
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return NULL;
        }
        return run;
}

/* Absent arguments are an empty object. Returns false after it has answered an error. */
static bool take_arguments(struct published_run *run, yyjson_val *arguments, struct reply *reply)
{
        bool none = !arguments || yyjson_is_null(arguments);

        if (none)
                return true;
        if (yyjson_is_obj(arguments) && json_append(&run->request.arguments, arguments) >= 0)
                return true;
        reply_error(reply, JSONRPC_INVALID_PARAMS, "params.arguments must be an object");
        published_run_free(run);
        return false;
}

void published_call_tool(const struct mcp_request *request, const struct config_published *tool,
                         struct reply *reply)
{
        struct published_run *run;

        if (tool->run.code) {
                run_tool_call(request, tool, reply);
                return;
        }
        run = begin(request, tool, RESULT_OF_TOOL, reply);
        if (run && take_arguments(run, yyjson_obj_get(request->params, "arguments"), reply))
                start(request, run, reply);
}

/* The first required argument that is missing, or one that is not a string; NULL: all are valid. */
static const char *find_wrong_argument(const struct config_published *prompt, yyjson_doc *declared,
                                       yyjson_val *arguments)
{
        yyjson_val *list = yyjson_doc_get_root(declared), *item, *key, *value;
        size_t i, n;

        yyjson_arr_foreach (list, i, n, item) {
                const char *name = json_string(item, "name", NULL);
                if (yyjson_is_true(yyjson_obj_get(item, "required")) &&
                    !yyjson_is_str(yyjson_obj_get(arguments, name)))
                        return name;
        }
        yyjson_obj_foreach (arguments, i, n, key, value) {
                if (!yyjson_is_str(value))
                        return yyjson_get_str(key);
        }
        return NULL;
}

void published_call_prompt(const struct mcp_request *request, struct reply *reply)
{
        yyjson_val *arguments = yyjson_obj_get(request->params, "arguments");
        const char *name = json_string(request->params, "name", NULL);
        const struct config_published *prompt = published_find(request->peer->principal,
                                                               PUBLISHED_PROMPT, name);
        _cleanup_json_ yyjson_doc *declared = NULL;
        char text[256];

        if (!prompt) {
                snprintf(text, sizeof(text),
                         name ? "unknown prompt: %.60s" : "params.name must be a string%.0s",
                         name ? name : "");
                reply_error(reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        if (prompt->arguments)
                json_parse(prompt->arguments, strlen(prompt->arguments), &declared, NULL);
        const char *wrong = find_wrong_argument(prompt, declared, arguments);
        if (wrong) {
                snprintf(text, sizeof(text), "prompt %s: the argument %.60s must be a string",
                         prompt->name, wrong);
                reply_error(reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        struct published_run *run = begin(request, prompt, RESULT_OF_PROMPT, reply);
        if (run && take_arguments(run, arguments, reply))
                start(request, run, reply);
}

bool published_call_read(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer variables = BUFFER_INIT(RESULT_MAX);
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);
        const struct config_published *entry = published_find_uri(request->peer->principal, uri, n,
                                                                  &variables);

        if (!entry)
                return false;
        struct published_run *run = begin(request, entry, RESULT_OF_RESOURCE, reply);
        if (!run)
                return true;
        /* Moved: what a template's code gets as arguments. */
        buffer_done(&run->request.arguments);
        run->request.arguments = variables;
        variables = (struct buffer)BUFFER_INIT(RESULT_MAX);
        snprintf(run->view.uri, sizeof(run->view.uri), "%s", uri);
        start(request, run, reply);
        return true;
}

/* ---- completion/complete ---- */

/* The values of the config that begin with what was typed. */
static void complete_from_list(const struct config_published *entry, yyjson_val *argument,
                               struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct json_out out = {.to = &result};
        size_t i, n, length = 0, total = 0;
        const char *typed = json_string(argument, "value", &length);
        yyjson_val *value;

        if (entry && entry->completions)
                json_parse(entry->completions, strlen(entry->completions), &doc, NULL);
        yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(doc),
                                          json_string(argument, "name", NULL));
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "completion", '{');
        json_out_begin(&out, "values", '[');
        yyjson_arr_foreach (list, i, n, value) {
                if (yyjson_get_len(value) >= length &&
                    strncasecmp(yyjson_get_str(value), typed, length) == 0 &&
                    total++ < COMPLETIONS_MAX)
                        json_out_string(&out, NULL, yyjson_get_str(value), yyjson_get_len(value));
        }
        json_out_end(&out, ']');
        json_out_int(&out, "total", (int64_t)total);
        json_out_bool(&out, "hasMore", total > COMPLETIONS_MAX);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        reply_made(reply, out.error, &result);
}

/* Finds the entry that ref names. known: it is one of Cloister's own, or published. */
static const struct config_published *find_ref(const struct mcp_request *request, bool *known)
{
        const struct mcp_principal *principal = request->peer->principal;
        yyjson_val *ref = yyjson_obj_get(request->params, "ref");
        const char *type = json_string(ref, "type", NULL), *uri = json_string(ref, "uri", NULL);
        const char *name = json_string(ref, "name", NULL);
        const struct config_published *entry = NULL;

        if (type && strcmp(type, "ref/prompt") == 0)
                entry = published_find(principal, PUBLISHED_PROMPT, name);
        if (type && uri && strcmp(type, "ref/resource") == 0) {
                entry = published_find(principal, PUBLISHED_TEMPLATE, uri);
                if (!entry)
                        entry = published_find(principal, PUBLISHED_RESOURCE, uri);
                *known = strncmp(uri, "cloister://", 11) == 0;
        }
        *known |= entry != NULL;
        return entry;
}

static int append_complete(yyjson_val *argument, yyjson_val *context, struct buffer *to)
{
        yyjson_val *given = yyjson_obj_get(context, "arguments");
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_value(&out, "name", yyjson_obj_get(argument, "name"));
        json_out_value(&out, "value", yyjson_obj_get(argument, "value"));
        if (yyjson_is_obj(given))
                json_out_value(&out, "context", given);
        else
                json_out_raw(&out, "context", "{}", 2);
        json_out_end(&out, '}');
        return out.error;
}

void published_complete(const struct mcp_request *request, struct reply *reply)
{
        yyjson_val *argument = yyjson_obj_get(request->params, "argument");
        yyjson_val *context = yyjson_obj_get(request->params, "context");
        bool known = false;
        const struct config_published *entry = find_ref(request, &known);

        if (!known || !yyjson_is_str(yyjson_obj_get(argument, "name")) ||
            !yyjson_is_str(yyjson_obj_get(argument, "value"))) {
                reply_error(reply, JSONRPC_INVALID_PARAMS,
                            known ? "params.argument must have strings name and value"
                                  : "params.ref names no prompt and no resource template");
                return;
        }
        if (!entry || !entry->completes) {
                complete_from_list(entry, argument, reply);
                return;
        }
        struct published_run *run = begin(request, entry, RESULT_OF_COMPLETION, reply);
        if (!run)
                return;
        if (append_complete(argument, context, &run->complete) < 0) {
                published_run_free(run);
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        start(request, run, reply);
}
