/* Methods of the MCP server. */
#include "supervisor/mcp/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cloister-config.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"
#include "supervisor/mcp/tool.h"

enum { SMALL_MAX = 1024 * 1024 };

static const char *const version_names[] = {
        [MCP_2024_11_05] = "2024-11-05",
        [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18",
        [MCP_2025_11_25] = "2025-11-25",
};
static_assert(ARRAY_SIZE(version_names) == MCP_VERSION_MAX, "a name a version");

static void send_message(struct mcp_server *server, struct batch *batch,
                         const struct buffer *message)
{
        if (!batch) {
                server->host.send(server->host.data, buffer_bytes(message), message->length);
                return;
        }
        if (batch_add(batch, message) < 0)
                log_warning("an answer of a batch was dropped: out of memory");
}

/* One answer of a batch less to wait for; the last one sends it. */
static void batch_step(struct mcp_server *server, struct batch *batch)
{
        if (!batch || --batch->waiting > 0)
                return;
        if (batch_close(batch) >= 0 && batch->out.length > 0)
                server->host.send(server->host.data, buffer_bytes(&batch->out), batch->out.length);
        batch_free(batch);
}

void mcp_answer(struct mcp_server *server, struct reply *reply, const struct buffer *result)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(RESULT_MAX);

        int r = jsonrpc_append_result(&message, reply_id(reply), buffer_bytes(result),
                                      result->length);
        if (r < 0) {
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, "the result is too large");
                return;
        }
        send_message(server, reply->batch, &message);
        batch_step(server, reply->batch);
        reply_done(reply);
}

void mcp_answer_error(struct mcp_server *server, struct reply *reply, int code, const char *message)
{
        _cleanup_buffer_ struct buffer out = BUFFER_INIT(SMALL_MAX);

        if (jsonrpc_append_error(&out, reply_id(reply), code, message, NULL, 0) >= 0)
                send_message(server, reply->batch, &out);
        batch_step(server, reply->batch);
        reply_done(reply);
}

void mcp_notify(struct mcp_server *server, const char *method, const struct buffer *params)
{
        _cleanup_buffer_ struct buffer message = BUFFER_INIT(SMALL_MAX);

        int r = jsonrpc_append_notification(&message, method, params ? buffer_bytes(params) : NULL,
                                            params ? params->length : 0);
        if (r >= 0)
                send_message(server, NULL, &message);
}

static void choose_version(struct mcp_server *server, yyjson_val *params)
{
        const char *asked = json_string(params, "protocolVersion", NULL);

        server->version = MCP_2025_11_25;
        for (int i = 0; asked && i < MCP_VERSION_MAX; i++) {
                if (strcmp(asked, version_names[i]) == 0)
                        server->version = (enum mcp_version)i;
        }
}

static int append_initialize(struct mcp_server *server, struct buffer *to, struct error *err)
{
        _cleanup_buffer_ struct buffer instructions = BUFFER_INIT(SMALL_MAX);

        int r = tool_append_instructions(
                server->config,
                hub_catalogue(server->hub, config_usual_profile(server->config), &(uint64_t){0}),
                &instructions, err);
        if (r >= 0)
                r = buffer_printf(
                        to,
                        "{\"protocolVersion\":\"%s\",\"capabilities\":{\"tools\":{\"listChanged\":"
                        "true}},\"serverInfo\":{\"name\":\"cloister\",\"title\":\"Cloister\","
                        "\"version\":\"" CLOISTER_VERSION "\"},\"instructions\":",
                        version_names[server->version]);
        if (r >= 0)
                r = json_append_string(to, buffer_bytes(&instructions), instructions.length);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

static void on_initialize(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);
        struct error err = {};

        choose_version(server, params);
        server->initialized = true;
        if (append_initialize(server, &result, &err) < 0)
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, err.text);
        else
                mcp_answer(server, reply, &result);
}

static void on_ping(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);

        if (buffer_append(&result, "{}", 2) >= 0)
                mcp_answer(server, reply, &result);
}

static int make_list(struct mcp_server *server, struct buffer *to, struct error *err)
{
        uint64_t version;

        return tool_append_list(
                server->config,
                hub_catalogue(server->hub, config_usual_profile(server->config), &version), to,
                err);
}

static void on_tools_list(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        struct error err = {};
        size_t n = 0;
        const char *cursor = json_string(params, "cursor", &n);

        if (cursor && n > 0) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "unknown cursor: the list has one page");
                return;
        }
        buffer_consume(&server->list, server->list.length);
        if (make_list(server, &server->list, &err) < 0)
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR, err.text);
        else
                mcp_answer(server, reply, &server->list);
        /* Now that the client has its answer, what the cache did not know may start. */
        hub_start(server->hub, config_usual_profile(server->config), HUB_UNKNOWN);
}

static void on_tools_call(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        mcp_call_start(server, params, reply);
}

static const struct method {
        const char *name;
        void (*handle)(struct mcp_server *server, yyjson_val *params, struct reply *reply);
} methods[] = {
        {"initialize", on_initialize},
        {"ping", on_ping},
        {"tools/list", on_tools_list},
        {"tools/call", on_tools_call},
};

static bool method_is(const struct jsonrpc_message *message, const char *name)
{
        return message->method_length == strlen(name) &&
               memcmp(message->method, name, message->method_length) == 0;
}

static void take_request(struct mcp_server *server, const struct jsonrpc_message *message,
                         struct batch *batch)
{
        struct reply reply;

        if (reply_init(&reply, message->id, batch) < 0) {
                mcp_answer_error(server, &reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (method_is(message, methods[i].name)) {
                        methods[i].handle(server, message->params, &reply);
                        return;
                }
        }
        mcp_answer_error(server, &reply, JSONRPC_METHOD_NOT_FOUND, "method not found");
}

static void take_notification(struct mcp_server *server, const struct jsonrpc_message *message)
{
        if (method_is(message, "notifications/cancelled"))
                mcp_call_cancel(server, yyjson_obj_get(message->params, "requestId"));
        else if (method_is(message, "notifications/initialized"))
                hub_start(server->hub, config_usual_profile(server->config), HUB_UNKNOWN);
}

static void answer_invalid(struct mcp_server *server, yyjson_val *id, int code, const char *why,
                           struct batch *batch)
{
        struct reply reply = {.batch = batch};

        if (id && reply_init(&reply, id, batch) < 0)
                log_warning("out of memory for the id of a request");
        mcp_answer_error(server, &reply, code, why);
}

static void take_message(struct mcp_server *server, const struct jsonrpc_message *message,
                         struct batch *batch)
{
        if (message->kind == JSONRPC_REQUEST) {
                if (batch)
                        batch->waiting++;
                take_request(server, message, batch);
        } else if (message->kind == JSONRPC_NOTIFICATION) {
                take_notification(server, message);
        } else {
                log_debug("a response that nobody asked for");
        }
}

/* The batch itself holds one of the answers waited for, so that it is not sent before its last
 * element was seen. */
static void take_batch(struct mcp_server *server, const struct jsonrpc_message *message)
{
        size_t i, n;
        yyjson_val *element;
        struct batch *batch;

        if (server->initialized && server->version != MCP_2025_03_26) {
                answer_invalid(server, NULL, JSONRPC_INVALID_REQUEST,
                               "batches are not part of this protocol version", NULL);
                return;
        }
        batch = batch_new();
        if (!batch)
                return;
        batch->waiting = 1;
        yyjson_arr_foreach(message->batch, i, n, element)
        {
                struct jsonrpc_message one;
                struct error err = {};

                if (jsonrpc_classify(element, &one, &err) < 0) {
                        batch->waiting++;
                        answer_invalid(server, one.id, JSONRPC_INVALID_REQUEST, err.text, batch);
                } else {
                        take_message(server, &one, batch);
                }
        }
        batch_step(server, batch);
}

/* The id of a request that is not JSON only for bytes that are not UTF-8, so that its sender learns
 * of it. */
static void answer_not_json(struct mcp_server *server, const char *line, size_t n, const char *why)
{
        _cleanup_json_ yyjson_doc *doc = yyjson_read(
                line, n, YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_INVALID_UNICODE);
        yyjson_val *id = yyjson_obj_get(yyjson_doc_get_root(doc), "id");

        answer_invalid(server, json_is_number(id) ? id : NULL, JSONRPC_PARSE_ERROR, why, NULL);
}

void mcp_server_line(struct mcp_server *server, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct error err = {};

        int r = jsonrpc_parse(line, n, &message, &err);
        if (r == -EBADMSG)
                answer_not_json(server, line, n, err.text);
        else if (r < 0)
                answer_invalid(server, message.id,
                               r == -ENOMEM ? JSONRPC_INTERNAL_ERROR : JSONRPC_INVALID_REQUEST,
                               err.text, NULL);
        else if (message.kind == JSONRPC_BATCH)
                take_batch(server, &message);
        else
                take_message(server, &message, NULL);
}

void mcp_server_line_too_long(struct mcp_server *server, size_t most)
{
        char text[96];

        snprintf(text, sizeof(text), "a message above %zu bytes was skipped", most);
        answer_invalid(server, NULL, JSONRPC_INVALID_REQUEST, text, NULL);
}

void mcp_server_catalogue_changed(struct mcp_server *server)
{
        _cleanup_buffer_ struct buffer list = BUFFER_INIT(SMALL_MAX);
        struct error err = {};

        /* A client that has not asked yet has nothing old. */
        if (server->list.length == 0 || make_list(server, &list, &err) < 0)
                return;
        if (list.length == server->list.length &&
            memcmp(buffer_bytes(&list), buffer_bytes(&server->list), list.length) == 0)
                return;
        buffer_consume(&server->list, server->list.length);
        if (buffer_append(&server->list, buffer_bytes(&list), list.length) >= 0)
                mcp_notify(server, "notifications/tools/list_changed", NULL);
}

void mcp_server_set_config(struct mcp_server *server, const struct config *config)
{
        server->config = config;
        mcp_server_catalogue_changed(server);
}

int mcp_server_new(struct mcp_server **ret, struct event_base *base, const struct config *config,
                   struct hub *hub, struct sessions *sessions, const struct mcp_host *host,
                   struct error *err)
{
        struct mcp_server *server = calloc(1, sizeof(*server));

        if (!server)
                return error_errno(err, ENOMEM, "MCP server");
        *server = (struct mcp_server){
                .base = base,
                .config = config,
                .hub = hub,
                .sessions = sessions,
                .host = *host,
                .version = MCP_2025_11_25,
                .list = BUFFER_INIT(SMALL_MAX),
        };
        *ret = server;
        return 0;
}

struct mcp_server *mcp_server_free(struct mcp_server *server)
{
        if (!server)
                return NULL;
        mcp_call_free_all(server);
        buffer_done(&server->list);
        free(server);
        return NULL;
}
