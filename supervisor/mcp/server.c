/* Methods of the MCP server. */
#include "supervisor/mcp/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cloister-config.h"
#include "rpc/client-request.h"
#include "supervisor/mcp/ask.h"
#include "supervisor/mcp/published-call.h"
#include "supervisor/mcp/resource-read.h"
#include "supervisor/mcp/resources.h"
#include "supervisor/mcp/result.h"
#include "supervisor/mcp/server-internal.h"
#include "supervisor/mcp/tasks.h"
#include "supervisor/mcp/tool.h"

enum { SMALL_MAX = 1024 * 1024, VERSION_SHOWN = 64 };

#define ID_IN_USE "the id is in use by another request"

static const char *const version_names[] = {
        [MCP_2024_11_05] = "2024-11-05",
        [MCP_2025_03_26] = "2025-03-26",
        [MCP_2025_06_18] = "2025-06-18",
        [MCP_2025_11_25] = "2025-11-25",
};
static_assert(ARRAY_SIZE(version_names) == MCP_VERSION_MAX, "a name a version");

const char mcp_server_info[] =
        "{\"name\":\"cloister\",\"title\":\"Cloister\",\"version\":\"" CLOISTER_VERSION "\"}";

/* Private: the lists name the user's servers. Short-lived: upstream servers may be starting. */
static const struct caching list_caching = {.ttl_ms = 5000, .scope = "private"};

static void choose_version(struct mcp_peer *peer, yyjson_val *params)
{
        const char *asked = json_string(params, "protocolVersion", NULL);

        peer->version = MCP_2025_11_25;
        for (int i = 0; i < MCP_VERSION_MAX; i++) {
                if (strcmp(asked, version_names[i]) == 0)
                        peer->version = (enum mcp_version)i;
        }
}

static int append_instructions(struct mcp_peer *peer, enum mcp_era era, struct buffer *to,
                               struct error *err)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(SMALL_MAX);

        int r = tool_append_instructions(peer->server->config, tool_list_catalogue(peer, era, NULL),
                                         &text, err);
        if (r < 0)
                return r;
        r = buffer_printf(to, ",\"instructions\":");
        if (r >= 0)
                r = json_append_string(to, buffer_bytes(&text), text.length);
        if (r >= 0)
                r = buffer_append(to, "}", 1);
        return r < 0 ? error_errno(err, -r, "instructions") : 0;
}

/* The same in both eras. */
#define CAPABILITIES                                                                               \
        "\"completions\":{},\"logging\":{},\"prompts\":{\"listChanged\":true},"                    \
        "\"resources\":{\"listChanged\":true,\"subscribe\":true},\"tools\":{\"listChanged\":true}"
#define LEGACY_TASKS ",\"tasks\":{\"list\":{},\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}"
#define MODERN_TASKS ",\"extensions\":{\"" TASKS_EXTENSION "\":{}}"

static void answer_made(struct mcp_server *server, struct reply *reply, int r,
                        const struct buffer *result, const struct error *err)
{
        if (r >= 0)
                mcp_answer(server, reply, result);
        else
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR,
                                 error_is_set(err) ? err->text : strerror(-r));
}

/* Refuses what the schema and "Lifecycle" of revision 2025-03-26 do not allow. */
static bool refuse_initialize(struct mcp_server *server, yyjson_val *params, struct reply *reply)
{
        const char *why = NULL;

        if (reply->batch) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_REQUEST,
                                 "initialize must not be part of a batch");
                return true;
        }
        if (!yyjson_is_str(yyjson_obj_get(params, "protocolVersion")))
                why = "params.protocolVersion must be a string";
        else if (!yyjson_is_obj(yyjson_obj_get(params, "capabilities")))
                why = "params.capabilities must be an object";
        else if (!mcp_is_implementation(yyjson_obj_get(params, "clientInfo")))
                why = "params.clientInfo must be an object with strings name and version";
        if (why)
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, why);
        return why;
}

void mcp_note_can(struct mcp_server *server, unsigned can)
{
        if (!(can & ~server->can))
                return;
        server->can |= can;
        if (server->tools.add_client)
                server->tools.add_client(server->tools.data, server->can);
}

/* One that is too large counts as empty. */
static void keep_capabilities(struct mcp_peer *peer, yyjson_val *capabilities)
{
        buffer_consume(&peer->capabilities, peer->capabilities.length);
        if (json_append(&peer->capabilities, capabilities) < 0)
                log_warning("a client's capabilities were dropped: more than %d bytes",
                            PEER_CAPABILITIES_MAX);
}

static void on_initialize(struct mcp_server *server, const struct mcp_request *request,
                          struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);
        struct error err = {};

        if (refuse_initialize(server, request->params, reply))
                return;
        choose_version(request->peer, request->params);
        mcp_note_client(request->peer,
                        json_string(yyjson_obj_get(request->params, "clientInfo"), "name", NULL));
        keep_capabilities(request->peer, yyjson_obj_get(request->params, "capabilities"));
        request->peer->initialized = true;
        request->peer->can = client_can_read(yyjson_obj_get(request->params, "capabilities"));
        mcp_note_can(server, request->peer->can);
        int r = buffer_printf(&result,
                              "{\"protocolVersion\":\"%s\",\"capabilities\":{" CAPABILITIES
                              "%s},\"serverInfo\":%s",
                              version_names[request->peer->version],
                              request->peer->version >= MCP_2025_11_25 ? LEGACY_TASKS : "",
                              mcp_server_info);
        if (r >= 0)
                r = append_instructions(request->peer, ERA_LEGACY, &result, &err);
        answer_made(server, reply, r, &result, &err);
}

static void on_discover(struct mcp_server *server, const struct mcp_request *request,
                        struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(SMALL_MAX);
        struct error err = {};

        reply->caching = &list_caching;
        int r = buffer_printf(&result, "{\"supportedVersions\":[\"" MCP_MODERN_VERSION
                                       "\"],\"capabilities\":{" CAPABILITIES MODERN_TASKS "}");
        if (r >= 0)
                r = append_instructions(request->peer, ERA_MODERN, &result, &err);
        answer_made(server, reply, r, &result, &err);
}

static void on_ping(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply)
{
        mcp_answer_empty(server, reply);
}

static void on_set_level(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply)
{
        if (mcp_log_level_read(yyjson_obj_get(request->params, "level"),
                               &request->peer->log_level) < 0)
                mcp_answer_error(
                        server, reply, JSONRPC_INVALID_PARAMS,
                        "params.level must be debug, info, notice, warning, error, critical, alert or emergency");
        else
                mcp_answer_empty(server, reply);
}

/* The client has its first answers: starts the servers whose tools are not cached, and has
 * sandboxes made for its sessions. */
static void client_is_ready(struct mcp_peer *peer, enum mcp_era era)
{
        struct mcp_server *server = peer->server;

        server->tools.start(server->tools.data, mcp_profile(peer, era), TOOL_SERVERS_UNKNOWN);
        sessions_expect(server->sessions, mcp_profile(peer, era));
}

/* run_python, then the tools of the config. */
static int append_tools(const struct mcp_request *request, struct buffer *to, struct error *err)
{
        static const char end[] = "]}";
        const struct buffer *list = tool_list_get(request->peer, request->era, err);

        if (!list)
                return -ENOMEM;
        int r = buffer_append(to, buffer_bytes(list), list->length - (sizeof(end) - 1));
        if (r >= 0)
                r = published_append(request->peer->server, request->peer->principal,
                                     PUBLISHED_TOOL, false, to);
        return r < 0 ? r : buffer_append_text(to, end);
}

static void on_tools_list(struct mcp_server *server, const struct mcp_request *request,
                          struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct error err = {};

        if (!mcp_request_is_first_page(request)) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "unknown cursor: the list has one page");
                return;
        }
        int r = append_tools(request, &result, &err);
        if (r >= 0 && request->era == ERA_LEGACY) {
                struct subscription *legacy = &request->peer->legacy;
                legacy->lists[LIST_TOOLS] = true;
                legacy->seen[LIST_TOOLS] = subscription_serial(legacy, LIST_TOOLS);
        }
        reply->caching = &list_caching;
        answer_made(server, reply, r, &result, &err);
        subscriptions_lists_changed(server, NULL);
        client_is_ready(request->peer, request->era);
}

static const struct method {
        const char *name;
        unsigned eras;
        void (*handle)(struct mcp_server *server, const struct mcp_request *request,
                       struct reply *reply);
} methods[] = {
        {"initialize", ERA_LEGACY, on_initialize},
        {"ping", ERA_LEGACY, on_ping},
        {"logging/setLevel", ERA_LEGACY, on_set_level},
        {"server/discover", ERA_MODERN, on_discover},
        {"subscriptions/listen", ERA_MODERN, subscriptions_listen},
        {"tools/list", ERA_LEGACY | ERA_MODERN, on_tools_list},
        {"tools/call", ERA_LEGACY | ERA_MODERN, tasks_call},
        {"tasks/get", ERA_LEGACY | ERA_MODERN, tasks_get},
        {"tasks/cancel", ERA_LEGACY | ERA_MODERN, tasks_cancel},
        {"tasks/result", ERA_LEGACY, tasks_result},
        {"tasks/list", ERA_LEGACY, tasks_list},
        {"tasks/update", ERA_MODERN, tasks_update},
        {"prompts/list", ERA_LEGACY | ERA_MODERN, published_prompts},
        {"prompts/get", ERA_LEGACY | ERA_MODERN, published_call_prompt},
        {"completion/complete", ERA_LEGACY | ERA_MODERN, published_complete},
        {"resources/list", ERA_LEGACY | ERA_MODERN, resources_list},
        {"resources/templates/list", ERA_LEGACY | ERA_MODERN, resources_templates},
        {"resources/read", ERA_LEGACY | ERA_MODERN, resources_read},
        {"resources/subscribe", ERA_LEGACY, resources_subscribe},
        {"resources/unsubscribe", ERA_LEGACY, resources_unsubscribe},
};

static bool method_is(const struct jsonrpc_message *message, const char *name)
{
        return message->method_length == strlen(name) &&
               memcmp(message->method, name, message->method_length) == 0;
}

static const struct method *find_method(const struct jsonrpc_message *message)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (method_is(message, methods[i].name))
                        return &methods[i];
        }
        return NULL;
}

static void answer_unsupported(struct mcp_server *server, const struct mcp_request *request,
                               struct reply *reply, const char *why)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(SMALL_MAX);
        yyjson_val *meta = yyjson_obj_get(request->params, "_meta");
        size_t n = 0;
        const char *version = json_string(meta, META_VERSION, &n);

        int r = buffer_printf(&data, "{\"supported\":[\"" MCP_MODERN_VERSION "\"],\"requested\":");
        if (r >= 0)
                r = json_append_string(&data, version, n < VERSION_SHOWN ? n : VERSION_SHOWN);
        if (r >= 0)
                r = buffer_append(&data, "}", 1);
        mcp_answer_error_data(server, reply, MCP_UNSUPPORTED_VERSION, why, r >= 0 ? &data : NULL);
}

/* Answers and notifications would be ambiguous. */
static bool is_id_in_use(const struct mcp_peer *peer, yyjson_val *id)
{
        return mcp_call_is_pending(peer, id) || resource_read_is_pending(peer, id) ||
               subscriptions_is_open(peer, id) || tasks_wait_is_pending(peer, id);
}

static void dispatch(struct mcp_server *server, const struct jsonrpc_message *message,
                     const struct mcp_request *request, struct reply *reply)
{
        const struct method *method = find_method(message);

        if (method && (method->eras & request->era))
                method->handle(server, request, reply);
        else if (method && method->eras == ERA_MODERN)
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "params._meta has no string " META_VERSION);
        else
                mcp_answer_error(server, reply, JSONRPC_METHOD_NOT_FOUND, "method not found");
}

static void take_request(struct mcp_peer *peer, struct mcp_sink *sink,
                         const struct jsonrpc_message *message, struct batch *batch)
{
        struct mcp_server *server = peer->server;
        struct mcp_request request;
        struct reply reply;
        struct error err = {};

        if (reply_init(&reply, message->id, sink, batch) < 0) {
                mcp_answer_error(server, &reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return;
        }
        int code = mcp_request_read(message->params, &request, &err);
        request.peer = peer;
        reply.modern = request.era == ERA_MODERN;
        if (code == 0 && reply.modern)
                mcp_note_can(server, request.can);
        if (is_id_in_use(peer, reply_id(&reply)))
                mcp_answer_error(server, &reply, JSONRPC_INVALID_REQUEST, ID_IN_USE);
        else if (batch && reply.modern)
                mcp_answer_error(server, &reply, JSONRPC_INVALID_REQUEST,
                                 "batches are not part of this protocol version");
        else if (code == MCP_UNSUPPORTED_VERSION)
                answer_unsupported(server, &request, &reply, err.text);
        else if (code != 0)
                mcp_answer_error(server, &reply, code, err.text);
        else
                dispatch(server, message, &request, &reply);
}

static void on_cancelled(struct mcp_peer *peer, yyjson_val *params)
{
        yyjson_val *id = yyjson_obj_get(params, "requestId");

        if (!mcp_call_cancel(peer, id) && !resource_read_cancel(peer, id) &&
            !subscriptions_cancel(peer, id) && !tasks_wait_cancel(peer, id))
                log_debug("a cancelled request is not under way");
}

static void take_notification(struct mcp_peer *peer, const struct jsonrpc_message *message)
{
        if (method_is(message, "notifications/cancelled"))
                on_cancelled(peer, message->params);
        else if (method_is(message, "notifications/initialized"))
                client_is_ready(peer, ERA_LEGACY);
        else if (method_is(message, "notifications/roots/list_changed"))
                asked_roots_changed(peer);
}

static void answer_invalid(struct mcp_peer *peer, struct mcp_sink *sink, yyjson_val *id, int code,
                           const char *why, struct batch *batch)
{
        struct reply reply = {.sink = mcp_sink_ref(sink), .batch = batch};

        if (id) {
                reply_done(&reply);
                if (reply_init(&reply, id, sink, batch) < 0)
                        log_warning("out of memory for the id of a request");
        }
        reply.null_id = peer->version < MCP_2025_11_25;
        mcp_answer_error(peer->server, &reply, code, why);
}

static void take_message(struct mcp_peer *peer, struct mcp_sink *sink,
                         const struct jsonrpc_message *message, struct batch *batch)
{
        if (message->kind == JSONRPC_REQUEST) {
                if (batch) {
                        batch->waiting++;
                        batch->has_requests = true;
                }
                take_request(peer, sink, message, batch);
        } else if (message->kind == JSONRPC_NOTIFICATION) {
                take_notification(peer, message);
        } else if (!mcp_ask_response(peer, message)) {
                log_debug("a response to no request");
        }
}

/* The requests of a batch are answered together: their ids are in use until all of it was read. */
struct batch_ids {
        size_t n;
        yyjson_val *ids[JSONRPC_BATCH_MAX];
};

static bool is_repeated(struct batch_ids *seen, const struct jsonrpc_message *message)
{
        if (message->kind != JSONRPC_REQUEST)
                return false;
        for (size_t i = 0; i < seen->n; i++) {
                if (jsonrpc_id_equals(seen->ids[i], message->id))
                        return true;
        }
        seen->ids[seen->n++] = message->id;
        return false;
}

/* The count begins at 1, so that the batch is not sent before its last element was read. */
static void take_batch(struct mcp_peer *peer, struct mcp_sink *sink,
                       const struct jsonrpc_message *message)
{
        struct batch_ids seen = {};
        size_t i, n;
        yyjson_val *element;
        struct batch *batch;

        if (peer->initialized && peer->version != MCP_2025_03_26) {
                answer_invalid(peer, sink, NULL, JSONRPC_INVALID_REQUEST,
                               "batches are not part of this protocol version", NULL);
                return;
        }
        batch = batch_new(sink);
        if (!batch)
                return;
        batch->waiting = 1;
        yyjson_arr_foreach (message->batch, i, n, element) {
                struct jsonrpc_message one;
                struct error err = {};

                if (jsonrpc_classify(element, &one, &err) >= 0 && is_repeated(&seen, &one))
                        error_set(&err, EEXIST, ID_IN_USE);
                if (error_is_set(&err)) {
                        batch->waiting++;
                        answer_invalid(peer, sink, one.id, JSONRPC_INVALID_REQUEST, err.text,
                                       batch);
                } else {
                        take_message(peer, sink, &one, batch);
                }
        }
        mcp_batch_step(peer->server, batch);
}

/* Answers a line that is not JSON. If only bytes that are not UTF-8 make it invalid, the answer has
 * the id of the request. */
static void answer_not_json(struct mcp_peer *peer, struct mcp_sink *sink, const char *line,
                            size_t n, const char *why)
{
        _cleanup_json_ yyjson_doc *doc = yyjson_read(
                line, n, YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_INVALID_UNICODE);
        yyjson_val *id = yyjson_obj_get(yyjson_doc_get_root(doc), "id");

        answer_invalid(peer, sink, json_is_integer(id) ? id : NULL, JSONRPC_PARSE_ERROR, why, NULL);
}

void mcp_peer_line(struct mcp_peer *peer, struct mcp_sink *sink, const char *line, size_t n)
{
        _cleanup_jsonrpc_ struct jsonrpc_message message;
        struct error err = {};

        int r = jsonrpc_parse(line, n, &message, &err);
        if (r == -EBADMSG)
                answer_not_json(peer, sink, line, n, err.text);
        else
                mcp_peer_parsed(peer, sink, &message, r, &err);
}

void mcp_peer_parsed(struct mcp_peer *peer, struct mcp_sink *sink,
                     const struct jsonrpc_message *message, int r, const struct error *err)
{
        static const int codes[] = {[EBADMSG] = JSONRPC_PARSE_ERROR,
                                    [EINVAL] = JSONRPC_INVALID_REQUEST,
                                    [ENOMEM] = JSONRPC_INTERNAL_ERROR};

        if (r < 0)
                answer_invalid(peer, sink, message->id, codes[-r], err->text, NULL);
        else if (message->kind == JSONRPC_BATCH)
                take_batch(peer, sink, message);
        else
                take_message(peer, sink, message, NULL);
}

void mcp_peer_too_long(struct mcp_peer *peer, struct mcp_sink *sink, size_t most)
{
        char text[96];

        snprintf(text, sizeof(text), "a message above %zu bytes was skipped", most);
        answer_invalid(peer, sink, NULL, JSONRPC_INVALID_REQUEST, text, NULL);
}

void mcp_server_catalogue_changed(struct mcp_server *server)
{
        /* A client that has not asked for the list has no old one. */
        if (tool_lists_refresh(server))
                subscriptions_lists_changed(server, NULL);
        subscriptions_catalogue_changed(server);
}

void mcp_server_closing(struct mcp_server *server)
{
        subscriptions_close(server);
}

void mcp_server_forget(struct mcp_server *server, struct mcp_principal *principal)
{
        sessions_end_of(server->sessions, principal->name);
        mcp_principal_done(principal);
        principal->store = (struct resource_store){};
}

void mcp_server_set_config(struct mcp_server *server, const struct config *config)
{
        const struct config *before = server->config;
        struct mcp_peer *peer;

        server->config = config;
        tool_lists_outdated(server);
        published_reload(server, before);
        LIST_FOREACH (peer, &server->peers, link)
                sessions_expect(server->sessions, mcp_profile(peer, ERA_LEGACY));
        mcp_server_catalogue_changed(server);
        subscriptions_lists_changed(server, NULL);
}

int mcp_server_new(struct mcp_server **ret, struct event_base *base, const struct config *config,
                   const struct tool_provider *tools, struct sessions *sessions,
                   const struct mcp_host *host, struct error *err)
{
        struct mcp_server *server = calloc(1, sizeof(*server));

        if (!server)
                return error_errno(err, ENOMEM, "MCP server");
        *server = (struct mcp_server){
                .base = base,
                .config = config,
                .tools = *tools,
                .sessions = sessions,
                .host = *host,
        };
        server->owner.profile = host->profile;
        LIST_INIT(&server->peers);
        *ret = server;
        return 0;
}

struct mcp_server *mcp_server_free(struct mcp_server *server)
{
        if (!server)
                return NULL;
        subscriptions_free(server);
        mcp_principal_done(&server->owner);
        tool_lists_free(server);
        free(server);
        return NULL;
}
