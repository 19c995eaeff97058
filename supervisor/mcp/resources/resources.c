/* The methods resources/…. */
#include "supervisor/mcp/resources/resources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc/jsonrpc.h"
#include "supervisor/mcp/publish/published-call.h"
#include "supervisor/mcp/resources/resource-read.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/session/cell/receipts.h"
#include "supervisor/session/session.h"

#define ATTESTATION_URI "cloister://attestation"

enum { RESOURCES_PAGE = 100 };

/* Cloister's own templates, without the bracket at the end. */
static const char templates[] =
        "{\"uriTemplate\":\"cloister://sessions/{session}/cells/{cell}/{stream}{?offset}\","
        "\"name\":\"output\",\"title\":\"Whole output of a call\",\"description\":"
        "\"All that a call printed to stdout or stderr, while its result showed a part; "
        "offset is the byte to begin at\",\"mimeType\":\"text/plain\"},"
        "{\"uriTemplate\":\"cloister://sessions/{session}/cells/{cell}/displays/{display}{?offset}\","
        "\"name\":\"display\",\"title\":\"Whole display of a call\",\"description\":"
        "\"What a call displayed, while its result does not show it\"},"
        "{\"uriTemplate\":\"cloister://sessions/{session}/cells/{cell}/receipt\","
        "\"name\":\"receipt\",\"title\":\"Receipt of a call\",\"description\":"
        "\"What a call has used and moved, by the kernel and Cloister\",\"mimeType\":\"application/json\"},"
        "{\"uriTemplate\":\"cloister://sessions/{session}/files/{+path}\","
        "\"name\":\"file\",\"title\":\"File of a session\",\"description\":"
        "\"A file that code put below /workspace/out\"},"
        "{\"uriTemplate\":\"" RESOURCE_TOOLS_URI "/{server}{?offset}\","
        "\"name\":\"tools-of-server\",\"title\":\"Tools of one MCP server\",\"description\":"
        "\"Names, descriptions and schemas\",\"mimeType\":\"application/json\"}";

static const char catalogue[] =
        "{\"uri\":\"" RESOURCE_TOOLS_URI "\",\"name\":\"tools\",\"title\":\"Tools that "
        "code can call\",\"description\":\"Names, arguments and descriptions of the "
        "tools of all MCP servers\",\"mimeType\":\"text/plain\"}";

static void put_names(struct json_out *out, const struct resource_uri *uri)
{
        unsigned long long cell = uri->cell, display = uri->display;
        const char *stream = uri->stream == CELL_STDOUT ? "stdout" : "stderr";
        char name[SESSION_NAME_MAX + 64], description[SESSION_NAME_MAX + 100];

        if (uri->kind == RESOURCE_OUTPUT) {
                snprintf(name, sizeof(name), "%s-%llu-%s.txt", uri->session, cell, stream);
                snprintf(description, sizeof(description),
                         "All that call %llu of session %s printed to %s", cell, uri->session,
                         stream);
        } else if (uri->kind == RESOURCE_DISPLAY) {
                snprintf(name, sizeof(name), "%s-%llu-display-%llu", uri->session, cell, display);
                snprintf(description, sizeof(description), "What call %llu of session %s displayed",
                         cell, uri->session);
        } else {
                snprintf(description, sizeof(description), "In /workspace/out of session %s",
                         uri->session);
        }
        json_out_text(out, "name", uri->kind == RESOURCE_FILE ? uri->path : name);
        json_out_text(out, "description", description);
}

static void put_entry(struct json_out *out, const struct resource *resource)
{
        size_t size = resource_size(resource);

        json_out_begin(out, NULL, '{');
        resource_uri_put(out, "uri", &resource->uri);
        put_names(out, &resource->uri);
        json_out_text(out, "mimeType", resource->mime_type);
        json_out_int(out, "size", (int64_t)(resource->is_blob ? size / 4 * 3 : size));
        json_out_end(out, '}');
}

static void put_attestation(struct json_out *out, const struct mcp_host *host)
{
        json_out_begin(out, NULL, '{');
        json_out_text(out, "uri", ATTESTATION_URI);
        json_out_text(out, "name", "attestation");
        json_out_text(out, "title", "Attacks tried before serving");
        json_out_text(out, "mimeType", "application/json");
        json_out_int(out, "size", (int64_t)host->attestation_length);
        json_out_end(out, '}');
}

static void read_attestation(const struct mcp_host *host, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        const struct resource_uri uri = {.kind = RESOURCE_PUBLISHED, .path = ATTESTATION_URI};
        const struct resource resource = {.mime_type = "application/json"};
        const struct buffer text = {.data = (char *)(uintptr_t)host->attestation,
                                    .length = host->attestation_length};

        int r = resource_append_whole(&resource, &uri, &text, &result);
        reply->caching = &caching_none;
        reply_made(reply, r, &result);
}

/* Newest first. The cursor is the serial of the last one of the page before. Entries that do not depend on calls are first. */
static void put_page(struct json_out *out, const struct mcp_peer *peer, enum mcp_era era,
                     uint64_t below)
{
        const struct mcp_server *server = peer->server;
        const struct resource_store *store = &peer->principal->store;
        const struct resource *resource = resource_store_before(store, below);
        uint64_t last = below;

        json_out_begin(out, NULL, '{');
        json_out_begin(out, "resources", '[');
        if (below == UINT64_MAX) {
                published_put(peer->principal, PUBLISHED_RESOURCE, out);
                if (server->host.attestation)
                        put_attestation(out, &server->host);
                if (tool_list_has_servers(peer, era))
                        json_out_raw(out, NULL, catalogue, sizeof(catalogue) - 1);
        }
        for (int i = 0; resource && i < RESOURCES_PAGE; i++) {
                put_entry(out, resource);
                last = resource->serial;
                resource = resource_store_before(store, last);
        }
        json_out_end(out, ']');
        if (resource)
                mcp_put_cursor(out, last);
        json_out_end(out, '}');
}

void resources_list(const struct mcp_request *request, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &result};
        uint64_t below;

        if (mcp_request_number_cursor(request, &below) < 0) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "unknown cursor");
                return;
        }
        subscription_list_sent(request, LIST_RESOURCES);
        reply->caching = &caching_none;
        put_page(&out, request->peer, request->era, below);
        reply_made(reply, out.error, &result);
}

void resources_templates(const struct mcp_request *request, struct reply *reply)
{
        published_reply_list(request, PUBLISHED_TEMPLATE, "resourceTemplates", templates, reply);
}

/* Returns false after it has answered an invalid request. */
static bool take_uri(const struct mcp_request *request, struct reply *reply,
                     struct resource_uri *ret)
{
        struct error err = {};
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);

        if (!uri) {
                reply_error(reply, JSONRPC_INVALID_PARAMS, "params.uri must be a string");
                return false;
        }
        if (published_take_uri(request->peer->principal, uri, n, ret))
                return true;
        if (resource_uri_parse(uri, n, ret, &err) < 0) {
                resource_reply_not_found(reply, uri, n, err.text);
                return false;
        }
        return true;
}

static void reply_not_found(const struct mcp_request *request, struct reply *reply, const char *why)
{
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);

        resource_reply_not_found(reply, uri, n, why);
}

static void read_output(const struct mcp_request *request, const struct resource_uri *uri,
                        struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        const struct resource *resource = resource_store_find(&request->peer->principal->store,
                                                              uri);
        char why[200];

        if (!resource || resource->dropped) {
                snprintf(
                        why, sizeof(why),
                        resource
                                ? "this output made room for newer ones: the newest %d, of %d "
                                  "MiB together, are kept"
                                : "no such output is kept: only those are, and displays, "
                                  "that a result showed in part or not at all (the newest %d, of %d MiB together)",
                        STORE_LIVE_MAX, STORE_BYTES_MAX / 1024 / 1024);
                reply_not_found(request, reply, why);
                return;
        }
        reply->caching = &caching_none;
        int r = resource_append_contents(resource, uri, &result);
        reply_made(reply, r, &result);
}

/* A receipt is kept as long as its session, for its newest cells. */
static void read_receipt(const struct mcp_request *request, const struct resource_uri *uri,
                         struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct resource text = {.head = BUFFER_INIT(RESOURCE_READ_MAX)};
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        char key[SESSION_KEY_MAX + 1], why[100];

        session_key_make(request->peer->principal->key, uri->session, key);
        const struct session *session = sessions_find(server->sessions, key);
        int r = session ? session_append_receipt(session, uri->cell, &text.head) : -ENOENT;
        if (r == -ENOENT) {
                snprintf(why, sizeof(why),
                         "no such receipt: a session keeps those of its newest %d calls",
                         RECEIPTS_MAX);
                reply_not_found(request, reply, why);
                return;
        }
        reply->caching = &caching_none;
        if (r >= 0)
                r = resource_append_contents(&text, uri, &result);
        buffer_done(&text.head);
        reply_made(reply, r, &result);
}

void resources_read(const struct mcp_request *request, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct resource_uri uri;

        if (published_call_read(request, reply))
                return;
        if (server->host.attestation &&
            yyjson_equals_str(yyjson_obj_get(request->params, "uri"), ATTESTATION_URI)) {
                read_attestation(&server->host, reply);
                return;
        }
        if (!take_uri(request, reply, &uri))
                return;
        if (uri.kind == RESOURCE_FILE)
                resource_read_file(request, &uri, reply);
        else if (uri.kind == RESOURCE_TOOLS)
                resource_read_tools(request, &uri, reply);
        else if (uri.kind == RESOURCE_RECEIPT)
                read_receipt(request, &uri, reply);
        else
                read_output(request, &uri, reply);
}

void resources_subscribe(const struct mcp_request *request, struct reply *reply)
{
        struct resource_uri uri;

        if (!take_uri(request, reply, &uri))
                return;
        if (subscription_watch(&request->peer->legacy, &uri) < 0)
                reply_error(reply, JSONRPC_INTERNAL_ERROR,
                            "too many resources are subscribed to: unsubscribe from some");
        else
                reply_empty(reply);
}

void resources_unsubscribe(const struct mcp_request *request, struct reply *reply)
{
        struct resource_uri uri;

        if (!take_uri(request, reply, &uri))
                return;
        subscription_unwatch(&request->peer->legacy, &uri);
        reply_empty(reply);
}
