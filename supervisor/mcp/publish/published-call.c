/* Calls of what the config publishes. */
#include "supervisor/mcp/publish/published-call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/call/call.h"
#include "supervisor/mcp/call/input.h"
#include "supervisor/mcp/profile.h"
#include "supervisor/mcp/publish/published-answers.h"
#include "supervisor/mcp/publish/published-ask.h"
#include "supervisor/mcp/publish/published-run.h"
#include "supervisor/mcp/subscriptions.h"

enum { COMPLETIONS_MAX = 100 };

static const struct caching list_caching = {.ttl_ms = 5000, .scope = "private"};
static const struct caching read_caching = {.ttl_ms = 0, .scope = "private"};

void published_list_prompts(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};

        if (!mcp_request_is_first_page(request)) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "unknown cursor: the list has one page");
                return;
        }
        subscription_list_sent(request, LIST_PROMPTS);
        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "prompts", '[');
        published_put(request->peer->server, request->peer->principal, PUBLISHED_PROMPT, &out);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        reply->caching = &list_caching;
        reply_made(reply, out.error, &result);
}

static void on_done(struct mcp_call *call)
{
        call->run = published_run_free(call->run);
}

static const struct mcp_call_kind published_kind = {published_ended, on_done};

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
        uint64_t digest = mcp_input_digest_published(run->method, &run->name, &run->arguments);
        char session[SESSION_NAME_MAX + 1];
        struct error err = {};

        if (run->view.what == RESULT_OF_RESOURCE)
                reply->caching = &read_caching;
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
        const char *why = mcp_call_quota(request->peer, session);
        struct mcp_call *call = why ? NULL
                                    : mcp_call_new(request, &published_kind, session,
                                                   server->config->output_characters, reply);
        if (!call) {
                published_refuse(run->view.what, reply, why ? why : strerror(ENOMEM));
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
                                   const char *method, struct reply *reply)
{
        struct published_run *run = published_run_new(request, entry, what, method);

        if (!run || buffer_append_text(&run->name, entry->name) < 0) {
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
        if (yyjson_is_obj(arguments) && json_append(&run->arguments, arguments) >= 0)
                return true;
        reply_error(reply, JSONRPC_INVALID_PARAMS, "params.arguments must be an object");
        published_run_free(run);
        return false;
}

void published_call_tool(const struct mcp_request *request, const struct config_published *tool,
                         struct reply *reply)
{
        struct published_run *run = begin(request, tool, RESULT_OF_TOOL, "tools/call", reply);

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
        const struct config_published *prompt = name ? published_find(request->peer->server,
                                                                      request->peer->principal,
                                                                      PUBLISHED_PROMPT, name)
                                                     : NULL;
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
        struct published_run *run = begin(request, prompt, RESULT_OF_PROMPT, "prompts/get", reply);
        if (run && take_arguments(run, arguments, reply))
                start(request, run, reply);
}

bool published_call_read(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer variables = BUFFER_INIT(RESULT_MAX);
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);
        const struct config_published *entry = uri ? published_find_uri(request->peer->server,
                                                                        request->peer->principal,
                                                                        uri, n, &variables)
                                                   : NULL;

        if (!entry)
                return false;
        struct published_run *run = begin(request, entry, RESULT_OF_RESOURCE, "resources/read",
                                          reply);
        if (!run)
                return true;
        /* Moved: what a template's code gets as arguments. */
        buffer_done(&run->arguments);
        run->arguments = variables;
        variables = (struct buffer)BUFFER_INIT(RESULT_MAX);
        snprintf(run->view.uri, sizeof(run->view.uri), "%s", uri);
        start(request, run, reply);
        return true;
}

/* ---- completion/complete ---- */

static bool begins_with(yyjson_val *value, const char *prefix, size_t n)
{
        return yyjson_get_len(value) >= n && strncasecmp(yyjson_get_str(value), prefix, n) == 0;
}

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
                if (begins_with(value, typed, length) && total++ < COMPLETIONS_MAX)
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
        struct mcp_server *server = request->peer->server;
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
        struct published_run *run = begin(request, entry, RESULT_OF_COMPLETION,
                                          "completion/complete", reply);
        if (!run)
                return;
        if (append_complete(argument, context, &run->complete) < 0) {
                published_run_free(run);
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        start(request, run, reply);
}
