/* Runs of what the config publishes. */
#include "supervisor/mcp/published-call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "policy/published-name.h"
#include "rpc/frame.h"
#include "supervisor/mcp/call-internal.h"
#include "supervisor/mcp/published-run.h"
#include "supervisor/mcp/request-state.h"
#include "supervisor/mcp/result.h"

enum { NAME_MAX_TEXT = 4 * RESOURCE_URI_MAX, FILENAME_MAX_TEXT = 320, WHY_MAX = 2048 };

static const struct caching read_caching = {.ttl_ms = 0, .scope = "private"};

static struct published_run *run_new(const struct mcp_request *request,
                                     const struct config_published *entry, enum published_what what,
                                     const char *method)
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

/* ---- why there is no result ---- */

/* A tool's failure is for the model, as its result. */
static void refuse(struct mcp_server *server, enum published_what what, struct reply *reply,
                   const char *why)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (what != RESULT_OF_TOOL) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, why);
                return;
        }
        int r = buffer_append_text(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
        if (r >= 0)
                r = json_append_string(&result, why, strlen(why));
        if (r >= 0)
                r = buffer_append_text(&result, "}],\"isError\":true}");
        mcp_answer_made(server, reply, r, &result);
}

void published_fail(struct mcp_call *call, const char *why)
{
        refuse(call->server, call->run->view.what, &call->reply, why);
        mcp_call_free(call);
}

/* ---- one run ---- */

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

/* The arguments go as JSON of a frame of their own: they are never part of the code. */
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
                .client = published_may_ask(run) ? &mcp_call_client : NULL,
                .data = call,
        };
        r = sessions_run(call->server->sessions, key, &cell, &call->cell, err);
        call->live.cell = r < 0 ? NULL : call->cell;
        return r;
}

/* ---- a call begins ---- */

/* What the client says that it can do. One that is too large counts as empty. */
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
static void start(struct mcp_server *server, const struct mcp_request *request,
                  struct published_run *run, struct reply *reply)
{
        const struct config_profile *own = mcp_profile(request->peer, request->era);
        uint64_t digest = mcp_input_digest_published(run->method, &run->name, &run->arguments);
        char session[SESSION_NAME_MAX + 1];
        struct error err = {};

        if (run->view.what == RESULT_OF_RESOURCE)
                reply->caching = &read_caching;
        if (run->modern && mcp_input_resume(server, request, digest, reply)) {
                published_run_free(run);
                return;
        }
        if (published_answers_read(request, run, &err) < 0) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, err.text);
                published_run_free(run);
                return;
        }
        take_capabilities(request, run);
        if (own)
                snprintf(run->profile, sizeof(run->profile), "%s", own->name);
        mcp_call_name_session(session);
        const char *why = mcp_call_quota(request->peer, session);
        struct mcp_call *call = why ? NULL
                                    : mcp_call_new(request->peer, session,
                                                   server->config->output_characters, reply);
        if (!call) {
                refuse(server, run->view.what, reply, why ? why : strerror(ENOMEM));
                published_run_free(run);
                return;
        }
        call->run = run;
        run->call = call;
        call->kinds = mcp_call_content_kinds(request);
        call->modern = run->modern;
        call->can = run->modern ? request->can : request->peer->can;
        call->log_level = run->modern ? request->log_level : request->peer->log_level;
        call->suspension.digest = digest;
        call->live.published = true;
        if (published_run_start(call, &err) < 0)
                published_fail(call, err.text);
        else if (live_start(&call->live, request, &call->reply, call->cell, call->session) < 0)
                log_warning("a call goes without progress: out of memory");
}

/* A run with its name, which a state of it has too; NULL after it has answered an error. */
static struct published_run *begin(struct mcp_server *server, const struct mcp_request *request,
                                   const struct config_published *entry, enum published_what what,
                                   const char *method, struct reply *reply)
{
        struct published_run *run = run_new(request, entry, what, method);

        if (!run || buffer_append_text(&run->name, entry->name) < 0) {
                published_run_free(run);
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return NULL;
        }
        return run;
}

/* Arguments that are absent are none. Returns false after it has answered an error. */
static bool take_arguments(struct mcp_server *server, struct published_run *run,
                           yyjson_val *arguments, struct reply *reply)
{
        bool none = !arguments || yyjson_is_null(arguments);

        if (none)
                return true;
        if (yyjson_is_obj(arguments) && json_append(&run->arguments, arguments) >= 0)
                return true;
        mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                         "params.arguments must be an object");
        published_run_free(run);
        return false;
}

void published_call_tool(struct mcp_server *server, const struct mcp_request *request,
                         const struct config_published *tool, struct reply *reply)
{
        struct published_run *run = begin(server, request, tool, RESULT_OF_TOOL, "tools/call",
                                          reply);

        if (run && take_arguments(server, run, yyjson_obj_get(request->params, "arguments"), reply))
                start(server, request, run, reply);
}

/* The first required argument that is missing, or one that is no string; "": all are fine. */
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

void published_call_prompt(struct mcp_server *server, const struct mcp_request *request,
                           struct reply *reply)
{
        yyjson_val *arguments = yyjson_obj_get(request->params, "arguments");
        const char *name = json_string(request->params, "name", NULL);
        const struct config_published *prompt = name ? published_find(server,
                                                                      request->peer->principal,
                                                                      PUBLISHED_PROMPT, name)
                                                     : NULL;
        _cleanup_json_ yyjson_doc *declared = NULL;
        char text[256];

        if (!prompt) {
                snprintf(text, sizeof(text),
                         name ? "unknown prompt: %.60s" : "params.name must be a string%.0s",
                         name ? name : "");
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        if (prompt->arguments)
                json_parse(prompt->arguments, strlen(prompt->arguments), &declared, NULL);
        const char *wrong = find_wrong_argument(prompt, declared, arguments);
        if (wrong) {
                snprintf(text, sizeof(text), "prompt %s: the argument %.60s must be a string",
                         prompt->name, wrong);
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, text);
                return;
        }
        struct published_run *run = begin(server, request, prompt, RESULT_OF_PROMPT, "prompts/get",
                                          reply);
        if (run && take_arguments(server, run, arguments, reply))
                start(server, request, run, reply);
}

bool published_call_read(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply)
{
        _cleanup_buffer_ struct buffer variables = BUFFER_INIT(RESULT_MAX);
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);
        const struct config_published *entry = uri ? published_find_uri(server,
                                                                        request->peer->principal,
                                                                        uri, n, &variables)
                                                   : NULL;

        if (!entry)
                return false;
        struct published_run *run = begin(server, request, entry, RESULT_OF_RESOURCE,
                                          "resources/read", reply);
        if (!run)
                return true;
        /* Moved: what a template's code gets as arguments. */
        buffer_done(&run->arguments);
        run->arguments = variables;
        variables = (struct buffer)BUFFER_INIT(RESULT_MAX);
        snprintf(run->view.uri, sizeof(run->view.uri), "%s", uri);
        start(server, request, run, reply);
        return true;
}

/* ---- completion/complete ---- */

static bool begins_with(yyjson_val *value, const char *prefix, size_t n)
{
        return yyjson_get_len(value) >= n && strncasecmp(yyjson_get_str(value), prefix, n) == 0;
}

/* The values of the config that begin with what was typed. */
static void complete_from_list(struct mcp_server *server, const struct config_published *entry,
                               yyjson_val *argument, struct reply *reply)
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
                if (begins_with(value, typed, length) && total++ < PUBLISHED_COMPLETIONS_MAX)
                        json_out_string(&out, NULL, yyjson_get_str(value), yyjson_get_len(value));
        }
        json_out_end(&out, ']');
        json_out_int(&out, "total", (int64_t)total);
        json_out_bool(&out, "hasMore", total > PUBLISHED_COMPLETIONS_MAX);
        json_out_end(&out, '}');
        json_out_end(&out, '}');
        mcp_answer_made(server, reply, out.error, &result);
}

/* What ref names. known: it is one of Cloister's own, or published. */
static const struct config_published *find_ref(struct mcp_server *server,
                                               const struct mcp_request *request, bool *known)
{
        const struct mcp_principal *principal = request->peer->principal;
        yyjson_val *ref = yyjson_obj_get(request->params, "ref");
        const char *type = json_string(ref, "type", NULL), *uri = json_string(ref, "uri", NULL);
        const char *name = json_string(ref, "name", NULL);
        const struct config_published *entry = NULL;

        if (type && name && strcmp(type, "ref/prompt") == 0)
                entry = published_find(server, principal, PUBLISHED_PROMPT, name);
        if (type && uri && strcmp(type, "ref/resource") == 0) {
                entry = published_find(server, principal, PUBLISHED_TEMPLATE, uri);
                if (!entry)
                        entry = published_find(server, principal, PUBLISHED_RESOURCE, uri);
                *known = strncmp(uri, "cloister://", 11) == 0;
        }
        *known |= entry != NULL;
        return entry;
}

static int append_complete(yyjson_val *argument, yyjson_val *context, struct buffer *to)
{
        yyjson_val *given = yyjson_obj_get(context, "arguments");

        int r = buffer_append_text(to, "{\"name\":");
        if (r >= 0)
                r = json_append(to, yyjson_obj_get(argument, "name"));
        if (r >= 0)
                r = buffer_append_text(to, ",\"value\":");
        if (r >= 0)
                r = json_append(to, yyjson_obj_get(argument, "value"));
        if (r >= 0)
                r = buffer_append_text(to, ",\"context\":");
        if (r >= 0)
                r = yyjson_is_obj(given) ? json_append(to, given) : buffer_append_text(to, "{}");
        return r < 0 ? r : buffer_append_text(to, "}");
}

void published_complete(struct mcp_server *server, const struct mcp_request *request,
                        struct reply *reply)
{
        yyjson_val *argument = yyjson_obj_get(request->params, "argument");
        yyjson_val *context = yyjson_obj_get(request->params, "context");
        bool known = false;
        const struct config_published *entry = find_ref(server, request, &known);

        if (!known || !yyjson_is_str(yyjson_obj_get(argument, "name")) ||
            !yyjson_is_str(yyjson_obj_get(argument, "value"))) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 known ? "params.argument must have strings name and value"
                                       : "params.ref names no prompt and no resource template");
                return;
        }
        if (!entry || !entry->completes) {
                complete_from_list(server, entry, argument, reply);
                return;
        }
        struct published_run *run = begin(server, request, entry, RESULT_OF_COMPLETION,
                                          "completion/complete", reply);
        if (!run)
                return;
        if (append_complete(argument, context, &run->complete) < 0) {
                published_run_free(run);
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        start(server, request, run, reply);
}
