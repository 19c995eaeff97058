/* The hub behind the table of supervisor/session/machine/tool-provider.h. */
#include "supervisor/broker/tool-provider.h"

#include <errno.h>

#include "supervisor/broker/secrets.h"
#include "supervisor/hub/hub.h"
#include "supervisor/secrets/arguments.h"

static struct hub *hub_of(void *data)
{
        return ((struct tool_parts *)data)->hub;
}

static void start_servers(void *data, const struct config_profile *profile, enum tool_servers which)
{
        hub_start(hub_of(data), profile, which == TOOL_SERVERS_ALL ? HUB_ALL : HUB_UNKNOWN);
}

static const struct buffer *catalogue(void *data, const struct config_profile *profile,
                                      uint64_t *version)
{
        return hub_catalogue(hub_of(data), profile, version);
}

static void on_result(void *data, const struct hub_result *result)
{
        const struct tool_result tool_result = {
                .error_kind = result->outcome == HUB_OK ? NULL : hub_outcome_kind(result->outcome),
                .result = result->result,
                .text = result->text,
                .text_length = result->text_length,
                .memfd = result->memfd,
                .memfd_length = result->memfd_length,
                .message = result->message,
                .rpc_code = result->rpc_code,
                .rpc_data = result->rpc_data,
                .duration_us = result->duration_us,
                .sent = result->sent,
        };
        tool_call_done(data, &tool_result);
}

static bool client(void *data, struct hub_client *ret)
{
        struct cell_client of_cell = {};

        if (!tool_call_client(data, &of_cell, &ret->id))
                return false;
        ret->can = of_cell.can;
        ret->log_level = of_cell.log_level;
        return true;
}

static const char *principal(void *data, size_t *n)
{
        return tool_call_principal(data, n);
}

static const struct trace_context *trace(void *data)
{
        return tool_call_trace(data);
}

static int ask(void *data, struct client_ask *client_ask, struct error *err)
{
        return tool_call_ask(data, client_ask, err);
}

static void progress(void *data, const struct hub_progress *p)
{
        const struct cell_progress of_cell = {p->value, p->total, p->message, p->length};

        tool_call_progress(data, &of_cell);
}

static void log_message(void *data, yyjson_val *params)
{
        tool_call_log(data, params);
}

/* Puts secrets into the arguments, after all rules: from here on only the hub and the server see them. *ret: the document with them. */
static int put_secrets(struct tool_parts *parts, const struct tool_request *request,
                       yyjson_doc **ret, struct error *err)
{
        const struct config_profile *profile = request->profile;
        const char *what = request->tool ? request->tool : request->method;

        if (!profile || !secret_arguments_concern(profile, request->server, what))
                return 0;
        const struct secret_arguments arguments = {
                .profile = profile,
                .values = broker_secrets_values(parts->secrets, profile->name),
                .mask = broker_secrets_mask(parts->secrets),
                .server = request->server,
                .tool = what,
                .object = request->arguments,
                .n = request->text ? request->text->n : 0};
        return secret_arguments_replace(&arguments, ret, err);
}

static int call(void *data, const struct tool_request *request, void **handle, struct error *err)
{
        static const struct hub_caller caller = {
                .done = on_result,
                .principal = principal,
                .client = client,
                .trace = trace,
                .ask = ask,
                .progress = progress,
                .log = log_message,
        };
        const struct hub_method *method = request->method ? hub_method_find(request->method) : NULL;
        struct hub_request hub_request = {
                .profile = request->profile,
                .server = request->server,
                .method = method ? method->name : NULL,
                .tool = request->tool,
                .arguments = request->arguments,
                .text = request->text,
                .timeout_ms = request->timeout_ms,
                .caller = &caller,
                .data = request->call,
        };
        struct hub_call *hub_call_handle;

        if (!request->tool && !hub_request.method)
                return error_set(err, EINVAL, "%.60s is not a method that code can call",
                                 request->method);
        yyjson_doc *with_secrets = NULL;
        int r = put_secrets(data, request, &with_secrets, err);
        if (r > 0) {
                hub_request.arguments = yyjson_doc_get_root(with_secrets);
                hub_request.text = NULL;
        }
        if (r >= 0)
                r = hub_call(hub_of(data), &hub_request, &hub_call_handle, err);
        secret_arguments_free(with_secrets);
        if (r >= 0)
                *handle = hub_call_handle;
        return r;
}

static void describe(void *data, const char *server, const char *tool, struct tool_description *ret)
{
        ret->tool = hub_describe(hub_of(data), server, tool, &ret->trusts_hints);
        ret->labels = hub_labels(hub_of(data), server);
}

static void add_client(void *data, unsigned can)
{
        hub_add_client(hub_of(data), can);
}

static void roots_changed(void *data, const char *server, const char *principal)
{
        hub_roots_changed(hub_of(data), server, principal);
}

static void forget(void *data, const char *principal)
{
        hub_forget(hub_of(data), principal);
}

static void drop(void *handle)
{
        hub_call_drop(handle);
}

static void stand_still(void *handle, bool stands_still)
{
        hub_call_stand_still(handle, stands_still);
}

static bool is_sent(void *handle)
{
        return hub_call_is_sent(handle);
}

static void on_waited(void *data)
{
        tool_wait_done(data);
}

static void *wait_for_servers(void *data, const struct config_profile *profile, uint32_t timeout_ms,
                              struct tool_call *tool_call)
{
        return hub_wait(hub_of(data), profile, timeout_ms, on_waited, tool_call);
}

static void cancel_wait(void *handle)
{
        hub_wait_cancel(handle);
}

static void on_found(void *data, const char *found, size_t n)
{
        tool_search_done(data, found, n);
}

static int search(void *data, const struct config_profile *profile, const char *query, size_t n,
                  size_t limit, struct tool_call *tool_call, void **handle)
{
        return hub_search(hub_of(data), profile, query, n, limit, on_found, tool_call, handle);
}

static void cancel_search(void *handle)
{
        hub_search_cancel(handle);
}

struct tool_provider tool_parts_provider(struct tool_parts *parts)
{
        return (struct tool_provider){
                .data = parts,
                .start = start_servers,
                .catalogue = catalogue,
                .call = call,
                .describe = describe,
                .add_client = add_client,
                .roots_changed = roots_changed,
                .forget = forget,
                .drop = drop,
                .hold = stand_still,
                .is_sent = is_sent,
                .wait = wait_for_servers,
                .cancel_wait = cancel_wait,
                .search = search,
                .cancel_search = cancel_search,
        };
}
