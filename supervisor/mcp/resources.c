/* Methods of resources. */
#include "supervisor/mcp/resources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/mcp/published-call.h"
#include "supervisor/mcp/resource-read.h"
#include "supervisor/mcp/result.h"
#include "supervisor/session/cell/receipts.h"
#include "supervisor/session/status.h"

static const struct caching list_caching = {.ttl_ms = 0, .scope = "private"};
static const struct caching template_caching = {.ttl_ms = 5000, .scope = "private"};

static const char templates[] =
        "{\"resourceTemplates\":["
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

static int append_uri_string(const struct resource_uri *uri, struct buffer *to)
{
        int r = buffer_append(to, "\"", 1);

        if (r >= 0)
                r = resource_uri_append(uri, to);
        return r < 0 ? r : buffer_append(to, "\"", 1);
}

static int append_names(const struct resource *resource, struct buffer *to)
{
        const struct resource_uri *uri = &resource->uri;
        const char *stream = uri->stream == CELL_STDOUT ? "stdout" : "stderr";
        int r;

        if (uri->kind == RESOURCE_OUTPUT)
                return buffer_printf(to,
                                     ",\"name\":\"%s-%llu-%s.txt\",\"description\":\"All that call "
                                     "%llu of session %s printed to %s\"",
                                     uri->session, (unsigned long long)uri->cell, stream,
                                     (unsigned long long)uri->cell, uri->session, stream);
        if (uri->kind == RESOURCE_DISPLAY)
                return buffer_printf(
                        to,
                        ",\"name\":\"%s-%llu-display-%llu\",\"description\":\"What call "
                        "%llu of session %s displayed\"",
                        uri->session, (unsigned long long)uri->cell,
                        (unsigned long long)uri->display, (unsigned long long)uri->cell,
                        uri->session);
        r = buffer_printf(to, ",\"name\":");
        if (r >= 0)
                r = json_append_string(to, uri->path, strlen(uri->path));
        return r < 0 ? r
                     : buffer_printf(to, ",\"description\":\"In /workspace/out of session %s\"",
                                     uri->session);
}

static int append_entry(const struct resource *resource, struct buffer *to)
{
        int r = buffer_printf(to, "{\"uri\":");

        if (r >= 0)
                r = append_uri_string(&resource->uri, to);
        if (r >= 0)
                r = append_names(resource, to);
        if (r >= 0)
                r = buffer_printf(to, ",\"mimeType\":");
        if (r >= 0)
                r = json_append_string(to, resource->mime_type, strlen(resource->mime_type));
        return r < 0 ? r
                     : buffer_printf(to, ",\"size\":%zu}",
                                     resource->is_blob ? resource_size(resource) / 4 * 3
                                                       : resource_size(resource));
}

#define ATTESTATION_URI "cloister://attestation"

static int append_attestation(const struct mcp_host *host, struct buffer *to)
{
        return buffer_printf(to,
                             "{\"uri\":\"" ATTESTATION_URI
                             "\",\"name\":\"attestation\",\"title\":\"Attacks tried before "
                             "serving\",\"mimeType\":\"application/json\",\"size\":%zu}",
                             host->attestation_length);
}

static void read_attestation(struct mcp_server *server, struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        const struct mcp_host *host = &server->host;

        int r = buffer_printf(&result, "{\"contents\":[{\"uri\":\"" ATTESTATION_URI
                                       "\",\"mimeType\":\"application/json\",\"text\":");
        if (r >= 0)
                r = json_append_string(&result, host->attestation, host->attestation_length);
        if (r >= 0)
                r = buffer_printf(&result, "}]}");
        reply->caching = &list_caching;
        mcp_answer_made(server, reply, r, &result);
}

static bool asks_for_attestation(const struct mcp_server *server, yyjson_val *params)
{
        const char *uri = json_string(params, "uri", NULL);

        return server->host.attestation && uri && strcmp(uri, ATTESTATION_URI) == 0;
}

/* Unless it is the first of the array. */
static int append_comma(struct buffer *to)
{
        return buffer_bytes(to)[to->length - 1] == '[' ? 0 : buffer_append(to, ",", 1);
}

static int append_catalogue(struct buffer *to)
{
        return buffer_append_text(
                to, "{\"uri\":\"" RESOURCE_TOOLS_URI "\",\"name\":\"tools\",\"title\":\"Tools that "
                    "code can call\",\"description\":\"Names, arguments and descriptions of the "
                    "tools of all MCP servers\",\"mimeType\":\"text/plain\"}");
}

/* What is first in the list: it does not depend on calls. */
static int append_fixed(const struct mcp_peer *peer, enum mcp_era era, struct buffer *to)
{
        const struct mcp_server *server = peer->server;
        int r = published_append(server, peer->principal, PUBLISHED_RESOURCE, true, to);

        if (r >= 0 && server->host.attestation) {
                r = append_comma(to);
                if (r >= 0)
                        r = append_attestation(&server->host, to);
        }
        if (r < 0 || !tool_list_has_servers(peer, era))
                return r;
        r = append_comma(to);
        return r < 0 ? r : append_catalogue(to);
}

/* Newest first. The cursor is the serial of the last one of the page before. */
static int append_page(const struct mcp_peer *peer, enum mcp_era era, uint64_t below,
                       struct buffer *to)
{
        const struct resource_store *store = &peer->principal->store;
        const struct resource *resource = resource_store_before(store, below);
        uint64_t last = below;
        int r = buffer_printf(to, "{\"resources\":[");

        if (r >= 0 && below == UINT64_MAX)
                r = append_fixed(peer, era, to);
        for (int i = 0; r >= 0 && resource && i < RESOURCES_PAGE; i++) {
                r = append_comma(to);
                if (r >= 0)
                        r = append_entry(resource, to);
                last = resource->serial;
                resource = resource_store_before(store, last);
        }
        if (r >= 0)
                r = buffer_append(to, "]", 1);
        if (r >= 0 && resource)
                r = buffer_printf(to, ",\"nextCursor\":\"%llu\"", (unsigned long long)last);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

void resources_list(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        uint64_t below;

        if (mcp_request_number_cursor(request, &below) < 0) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS, "unknown cursor");
                return;
        }
        if (request->era == ERA_LEGACY) {
                struct subscription *legacy = &request->peer->legacy;
                legacy->lists[LIST_RESOURCES] = true;
                legacy->seen[LIST_RESOURCES] = subscription_serial(legacy, LIST_RESOURCES);
        }
        reply->caching = &list_caching;
        int r = append_page(request->peer, request->era, below, &result);
        mcp_answer_made(server, reply, r, &result);
}

void resources_templates(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply)
{
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (!mcp_request_is_first_page(request)) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "unknown cursor: the list has one page");
                return;
        }
        reply->caching = &template_caching;
        int r = buffer_append(&result, templates, sizeof(templates) - 1);
        if (r >= 0)
                r = published_append(server, request->peer->principal, PUBLISHED_TEMPLATE, false,
                                     &result);
        if (r >= 0)
                r = buffer_append_text(&result, "]}");
        mcp_answer_made(server, reply, r, &result);
}

void resources_answer_not_found(struct mcp_server *server, yyjson_val *params, struct reply *reply,
                                const char *why)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(RESULT_MAX);
        size_t n = 0;
        const char *uri = json_string(params, "uri", &n);

        int r = buffer_printf(&data, "{\"uri\":");
        if (r >= 0)
                r = json_append_string(&data, uri, n < RESOURCE_URI_MAX ? n : RESOURCE_URI_MAX);
        if (r >= 0)
                r = buffer_append(&data, "}", 1);
        mcp_answer_error_data(server, reply,
                              reply->modern ? JSONRPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND, why,
                              r >= 0 ? &data : NULL);
}

/* Returns false after it has answered an invalid request. */
static bool take_uri(struct mcp_server *server, const struct mcp_request *request,
                     struct reply *reply, struct resource_uri *ret)
{
        struct error err = {};
        size_t n = 0;
        const char *uri = json_string(request->params, "uri", &n);

        if (!uri) {
                mcp_answer_error(server, reply, JSONRPC_INVALID_PARAMS,
                                 "params.uri must be a string");
                return false;
        }
        if (published_take_uri(server, request->peer->principal, uri, n, ret))
                return true;
        if (resource_uri_parse(uri, n, ret, &err) < 0) {
                resources_answer_not_found(server, request->params, reply, err.text);
                return false;
        }
        return true;
}

static int append_item(const struct resource *resource, const struct resource_uri *uri,
                       const struct buffer *text, struct buffer *to)
{
        bool json = uri->kind == RESOURCE_RECEIPT || (uri->kind == RESOURCE_TOOLS && uri->path[0]);
        const char *mime_type = uri->kind == RESOURCE_DISPLAY ? resource->mime_type
                                : json                        ? "application/json"
                                                              : "text/plain";
        int r = buffer_printf(to, "{\"uri\":");

        if (r >= 0)
                r = append_uri_string(uri, to);
        if (r >= 0)
                r = buffer_printf(to, ",\"mimeType\":\"%s\",\"%s\":", mime_type,
                                  resource->is_blob ? "blob" : "text");
        if (r >= 0)
                r = json_append_string(to, text->length > 0 ? buffer_bytes(text) : "",
                                       text->length);
        return r < 0 ? r : buffer_append(to, "}", 1);
}

/* In one piece: the limit of a call's displays is that of a file. */
static int append_blob(const struct resource *resource, const struct resource_uri *uri,
                       struct buffer *to)
{
        int r = buffer_append_text(to, "{\"contents\":[");

        if (r >= 0)
                r = append_item(resource, uri, &resource->head, to);
        return r < 0 ? r : buffer_append_text(to, "]}");
}

int resources_append_contents(const struct resource *resource, const struct resource_uri *uri,
                              struct buffer *to)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(RESOURCE_READ_MAX + 4);
        _cleanup_buffer_ struct buffer note = BUFFER_INIT(RESOURCE_URI_MAX);
        uint64_t end = 0, size = resource_size(resource);

        if (resource->is_blob)
                return append_blob(resource, uri, to);
        int r = buffer_printf(to, "{\"contents\":[");
        if (r >= 0)
                r = resource_append_text(resource, uri->offset, RESOURCE_READ_MAX, &text, &end);
        if (r >= 0)
                r = append_item(resource, uri, &text, to);
        if (r >= 0 && end < size) {
                struct resource_uri next = *uri;

                next.offset = end;
                r = buffer_printf(&note,
                                  "[... %llu of %llu bytes so far; this item's URI has the "
                                  "next ...]",
                                  (unsigned long long)end, (unsigned long long)size);
                if (r >= 0)
                        r = buffer_append(to, ",", 1);
                if (r >= 0)
                        r = append_item(resource, &next, &note, to);
        }
        return r < 0 ? r : buffer_append(to, "]}", 2);
}

static void read_output(struct mcp_server *server, const struct mcp_request *request,
                        const struct resource_uri *uri, struct reply *reply)
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
                resources_answer_not_found(server, request->params, reply, why);
                return;
        }
        reply->caching = &list_caching;
        int r = resources_append_contents(resource, uri, &result);
        mcp_answer_made(server, reply, r, &result);
}

/* It is gone with its session, whose newest cells have one. */
static void read_receipt(struct mcp_server *server, const struct mcp_request *request,
                         const struct resource_uri *uri, struct reply *reply)
{
        struct resource text = {.head = BUFFER_INIT(RESOURCE_READ_MAX)};
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);
        char key[SESSION_KEY_MAX + 1], why[100];

        session_key_make(request->peer->principal->name, uri->session, key);
        const struct session *session = sessions_find(server->sessions, key);
        int r = session ? session_append_receipt(session, uri->cell, &text.head) : -ENOENT;
        if (r == -ENOENT) {
                snprintf(why, sizeof(why),
                         "no such receipt: a session keeps those of its newest %d calls",
                         RECEIPTS_MAX);
                resources_answer_not_found(server, request->params, reply, why);
                return;
        }
        reply->caching = &list_caching;
        if (r >= 0)
                r = resources_append_contents(&text, uri, &result);
        buffer_done(&text.head);
        mcp_answer_made(server, reply, r, &result);
}

void resources_read(struct mcp_server *server, const struct mcp_request *request,
                    struct reply *reply)
{
        struct resource_uri uri;

        if (published_call_read(server, request, reply))
                return;
        if (asks_for_attestation(server, request->params)) {
                read_attestation(server, reply);
                return;
        }
        if (!take_uri(server, request, reply, &uri))
                return;
        if (uri.kind == RESOURCE_FILE)
                resource_read_file(server, request, &uri, reply);
        else if (uri.kind == RESOURCE_TOOLS)
                resource_read_tools(server, request, &uri, reply);
        else if (uri.kind == RESOURCE_RECEIPT)
                read_receipt(server, request, &uri, reply);
        else
                read_output(server, request, &uri, reply);
}

void resources_subscribe(struct mcp_server *server, const struct mcp_request *request,
                         struct reply *reply)
{
        struct resource_uri uri;

        if (!take_uri(server, request, reply, &uri))
                return;
        if (subscription_watch(&request->peer->legacy, &uri) < 0)
                mcp_answer_error(server, reply, JSONRPC_INTERNAL_ERROR,
                                 "too many resources are subscribed to: unsubscribe from some");
        else
                mcp_answer_empty(server, reply);
}

void resources_unsubscribe(struct mcp_server *server, const struct mcp_request *request,
                           struct reply *reply)
{
        struct resource_uri uri;

        if (!take_uri(server, request, reply, &uri))
                return;
        subscription_unwatch(&request->peer->legacy, &uri);
        mcp_answer_empty(server, reply);
}

void resources_keep(struct mcp_server *server, struct mcp_principal *principal,
                    const struct resource_uri *uri, struct capture *capture)
{
        if (resource_store_keep(&principal->store, uri, capture) < 0)
                return;
        principal->resources_serial++;
        subscriptions_lists_changed(server, principal);
        subscriptions_updated(server, principal, uri);
}

void resources_keep_display(struct mcp_server *server, struct mcp_principal *principal,
                            const struct resource_uri *uri, struct cell_display *display)
{
        if (resource_store_keep_display(&principal->store, uri, display) < 0)
                return;
        principal->resources_serial++;
        subscriptions_lists_changed(server, principal);
        subscriptions_updated(server, principal, uri);
}

void resources_name_files(struct mcp_server *server, struct mcp_principal *principal,
                          const char *session, const struct cell_outcome *outcome)
{
        bool changed = false;

        /* A new sandbox starts with an empty directory; a lost one leaves no files. */
        if (outcome->state != CELL_STATE_KEPT && outcome->state != CELL_STATE_RESTORED &&
            outcome->state != CELL_STATE_ROLLED_BACK)
                changed = resource_store_forget_files(&principal->store, session);
        for (size_t i = 0; i < outcome->n_files && outcome->state != CELL_STATE_LOST; i++) {
                struct resource_uri uri = {.kind = RESOURCE_FILE};

                snprintf(uri.session, sizeof(uri.session), "%s", session);
                snprintf(uri.path, sizeof(uri.path), "%s", outcome->files[i].path);
                if (resource_store_name_file(&principal->store, &uri, &outcome->files[i]) > 0)
                        changed = true;
                subscriptions_updated(server, principal, &uri);
        }
        if (changed) {
                principal->resources_serial++;
                subscriptions_lists_changed(server, principal);
        }
}
