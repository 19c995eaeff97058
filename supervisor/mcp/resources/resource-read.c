/* Contents of resources as JSON; files of sessions and the catalogue of tools, read for clients. */
#include "supervisor/mcp/resources/resource-read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "rpc/background.h"
#include "rpc/jsonrpc.h"
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/tool.h"
#include "supervisor/session/calls/files.h"

enum {
        RESOURCE_FILE_MAX = 16 * 1024 * 1024, /* a larger file is refused */
        CATALOGUE_TEXT_MAX = 64 * 1024 * 1024,
        DESCRIPTION_MAX = 300, /* bytes of it that are read */
        DESCRIPTION_CUT = 120, /* characters of it that are shown */
};

static void put_item(struct json_out *out, const struct resource *resource,
                     const struct resource_uri *uri, const struct buffer *text)
{
        bool json = uri->kind == RESOURCE_RECEIPT || (uri->kind == RESOURCE_TOOLS && uri->path[0]);

        json_out_begin(out, NULL, '{');
        resource_uri_put(out, "uri", uri);
        json_out_text(out, "mimeType",
                      *resource->mime_type ? resource->mime_type
                      : json               ? "application/json"
                                           : "text/plain");
        json_out_string(out, resource->is_blob ? "blob" : "text", buffer_bytes(text), text->length);
        json_out_end(out, '}');
}

/* Puts a range of the text, and another item that has the URI of the rest. */
static int put_text(struct json_out *out, const struct resource *resource,
                    const struct resource_uri *uri)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(RESOURCE_READ_MAX + 4);
        _cleanup_buffer_ struct buffer note = BUFFER_INIT(RESOURCE_URI_MAX);
        uint64_t end = 0, size = resource_size(resource);
        struct resource_uri next = *uri;

        int r = resource_append_text(resource, uri->offset, RESOURCE_READ_MAX, &text, &end);
        if (r >= 0)
                put_item(out, resource, uri, &text);
        if (r < 0 || end >= size)
                return r;
        next.offset = end;
        r = buffer_printf(&note,
                          "[... %llu of %llu bytes so far; this item's URI has the next ...]",
                          (unsigned long long)end, (unsigned long long)size);
        if (r >= 0)
                put_item(out, resource, &next, &note);
        return r;
}

static void end_contents(struct json_out *out)
{
        json_out_end(out, ']');
        json_out_end(out, '}');
}

static struct json_out begin_contents(struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "contents", '[');
        return out;
}

int resource_append_whole(const struct resource *resource, const struct resource_uri *uri,
                          const struct buffer *text, struct buffer *to)
{
        struct json_out out = begin_contents(to);

        put_item(&out, resource, uri, text);
        end_contents(&out);
        return out.error;
}

int resource_append_contents(const struct resource *resource, const struct resource_uri *uri,
                             struct buffer *to)
{
        struct json_out out;

        /* A blob is in one piece: the limit of a call's displays is that of a file. */
        if (resource->is_blob)
                return resource_append_whole(resource, uri, &resource->head, to);
        out = begin_contents(to);
        int r = put_text(&out, resource, uri);
        end_contents(&out);
        return r < 0 ? r : out.error;
}

void resource_reply_not_found(struct reply *reply, const char *uri, size_t n, const char *why)
{
        _cleanup_buffer_ struct buffer data = BUFFER_INIT(RESULT_MAX);
        struct json_out out = {.to = &data};

        json_out_begin(&out, NULL, '{');
        json_out_string(&out, "uri", uri, n < RESOURCE_URI_MAX ? n : RESOURCE_URI_MAX);
        json_out_end(&out, '}');
        reply_error_data(reply, reply->modern ? JSONRPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
                         why, out.error >= 0 ? &data : NULL);
}

/* ---- the catalogue as text ---- */

static const char head[] =
        "# Tools of the user's MCP servers\n"
        "In the code of run_python: await tools[\"server.tool\"](argument=value). "
        "? marks an optional argument; _schema(\"server.tool\"), or the "
        "resource cloister://tools/SERVER, has the schemas.\n";

static void append_member(yyjson_val *object, const char *key, const char *before,
                          struct buffer *to)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        if (!text)
                return;
        buffer_append_text(to, before);
        tool_append_clean(to, text, n);
}

static void append_description(yyjson_val *tool, struct buffer *to)
{
        size_t n = 0;
        const char *text = json_string(tool, "description", &n);

        if (!text || n == 0)
                return;
        size_t shown = utf8_cut(text, n, DESCRIPTION_MAX);
        shown = utf8_skip(text, shown, DESCRIPTION_CUT);
        buffer_append_text(to, ": ");
        tool_append_clean(to, text, shown);
        if (shown < n)
                buffer_append_text(to, "…");
}

/* Appends a line for a server with its state, and below it one for each tool: its signature and the beginning of its
 * description. */
static void append_server(yyjson_val *server, struct buffer *to)
{
        yyjson_val *tools = yyjson_obj_get(server, "tools"), *tool;
        size_t i, n;

        append_member(server, "name", "\n## ", to);
        append_member(server, "state", " (", to);
        append_member(server, "error", ": ", to);
        buffer_printf(to, "; %zu tools)\n", yyjson_arr_size(tools));
        yyjson_arr_foreach (tools, i, n, tool) {
                buffer_append_text(to, "- ");
                tool_append_signature(tool, to);
                tool_append_asks(tool, to);
                append_description(tool, to);
                buffer_append(to, "\n", 1);
        }
}

/* Appends all servers as text, or one as the catalogue has it, JSON with all schemas. Returns 0, -ENOENT, -EBADMSG, -EMSGSIZE,
 * -ENOMEM. */
static int append_catalogue(const struct buffer *catalogue, const char *name, struct buffer *to)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *server;
        size_t i, n;

        int r = catalogue->length > 0
                        ? json_parse(buffer_bytes(catalogue), catalogue->length, &doc, NULL)
                        : 0;
        if (r < 0)
                return r;
        yyjson_val *servers = yyjson_obj_get(yyjson_doc_get_root(doc), "servers");
        if (!*name)
                buffer_append_text(to, head);
        yyjson_arr_foreach (servers, i, n, server) {
                if (*name && yyjson_equals_str(yyjson_obj_get(server, "name"), name))
                        return json_append(to, server);
                if (!*name && !yyjson_equals_str(yyjson_obj_get(server, "state"), "disabled"))
                        append_server(server, to);
        }
        return *name ? -ENOENT : to->error;
}

/* ---- pending reads ---- */

struct resource_read {
        struct resource_read *next;
        struct mcp_server *server;
        struct mcp_peer *peer; /* NULL: it has ended */
        struct mcp_principal *principal;
        struct reply reply;
        struct resource_uri uri;
        bool cancelled;
        struct tools_job *job; /* of the catalogue; else the worker reads a file */
};

/* The catalogue of tools, rendered from a copy. */
struct tools_job {
        struct background_job job; /* first */
        struct resource_read *read;
        struct resource_uri uri;
        struct buffer catalogue, result;
        int r;
};

static void read_free(struct resource_read *read)
{
        struct resource_read **at = &read->server->reads;

        while (*at != read)
                at = &(*at)->next;
        *at = read->next;
        reply_done(&read->reply);
        if (read->job)
                background_cancel(&read->job->job);
        free(read);
}

static bool is_text(const char *mime_type, const struct buffer *content)
{
        return (strncmp(mime_type, "text/", 5) == 0 || strcmp(mime_type, "application/json") == 0 ||
                strcmp(mime_type, "image/svg+xml") == 0) &&
               utf8_is_valid(buffer_bytes(content), content->length);
}

static int append_contents(const struct resource_read *read, const struct buffer *content,
                           struct buffer *to)
{
        const struct resource *known = resource_store_find(&read->principal->store, &read->uri);
        _cleanup_buffer_ struct buffer blob = BUFFER_INIT(RESULT_MAX);
        struct resource file = {};

        snprintf(file.mime_type, sizeof(file.mime_type), "%s",
                 known ? known->mime_type : "application/octet-stream");
        file.is_blob = !is_text(file.mime_type, content);
        if (file.is_blob && base64_append(&blob, buffer_bytes(content), content->length) < 0)
                return blob.error;
        return resource_append_whole(&file, &read->uri, file.is_blob ? &blob : content, to);
}

/* To the protocol a missing file and a missing session are the same. */
static void answer_error(struct resource_read *read, const struct error *error)
{
        _cleanup_buffer_ struct buffer uri = BUFFER_INIT(4 * RESOURCE_URI_MAX);
        /* EIO: the worker could not read it. */
        bool missing = error->code == ENOENT || error->code == EINVAL || error->code == EIO;

        if (missing && resource_uri_append(&read->uri, &uri) >= 0)
                resource_reply_not_found(&read->reply, buffer_bytes(&uri), uri.length, error->text);
        else
                reply_error(&read->reply, JSONRPC_INTERNAL_ERROR, error->text);
}

static void on_read(void *data, struct buffer *content, const struct error *error)
{
        struct resource_read *read = data;
        _cleanup_buffer_ struct buffer result = BUFFER_INIT(RESULT_MAX);

        if (!read->cancelled && error) {
                answer_error(read, error);
        } else if (!read->cancelled) {
                int r = append_contents(read, content, &result);
                read->reply.caching = &caching_none;
                reply_made(&read->reply, r, &result);
        }
        read_free(read);
}

/* Takes ownership of the reply; answers it and returns NULL when out of memory. */
static struct resource_read *read_new(const struct mcp_request *request,
                                      const struct resource_uri *uri, struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct resource_read *read = calloc(1, sizeof(*read));

        if (!read) {
                reply_error(reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                return NULL;
        }
        *read = (struct resource_read){.next = server->reads,
                                       .server = server,
                                       .peer = request->peer,
                                       .principal = request->peer->principal,
                                       .reply = *reply,
                                       .uri = *uri};
        *reply = (struct reply){};
        server->reads = read;
        return read;
}

void resource_read_file(const struct mcp_request *request, const struct resource_uri *uri,
                        struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        struct resource_read *read = read_new(request, uri, reply);
        char key[SESSION_KEY_MAX + 1];
        struct error err = {};

        if (!read)
                return;
        session_key_make(read->principal->key, uri->session, key);
        sessions_note_named(server->sessions, key);
        if (files_read(sessions_find(server->sessions, key), key, uri->path, RESOURCE_FILE_MAX,
                       on_read, read, &err) < 0) {
                answer_error(read, &err);
                read_free(read);
        }
}

static void run_tools(struct background_job *job)
{
        struct tools_job *tools = (void *)job;
        struct resource text = {.head = BUFFER_INIT(CATALOGUE_TEXT_MAX)};

        tools->r = append_catalogue(&tools->catalogue, tools->uri.path, &text.head);
        if (tools->r >= 0)
                tools->r = resource_append_contents(&text, &tools->uri, &tools->result);
        buffer_done(&text.head);
}

static void free_tools(struct background_job *job)
{
        struct tools_job *tools = (void *)job;

        background_free(tools->catalogue.data, tools->catalogue.allocated);
        background_free(tools->result.data, tools->result.allocated);
        free(tools);
}

static void on_tools(struct background_job *job)
{
        struct tools_job *tools = (void *)job;
        struct resource_read *read = tools->read;
        struct error err = {};

        read->job = NULL;
        if (tools->r == -ENOENT) {
                error_set(&err, ENOENT, "there is no such server: cloister://tools names them");
                answer_error(read, &err);
        } else {
                read->reply.caching = &caching_none;
                reply_made(&read->reply, tools->r, &tools->result);
        }
        read_free(read);
        free_tools(job);
}

void resource_read_tools(const struct mcp_request *request, const struct resource_uri *uri,
                         struct reply *reply)
{
        struct mcp_server *server = request->peer->server;
        static const struct background_kind kind = {run_tools, on_tools, free_tools};
        const struct buffer *catalogue = tool_list_catalogue(request->peer, request->era, NULL);
        struct resource_read *read = read_new(request, uri, reply);
        struct tools_job *job = read ? calloc(1, sizeof(*job)) : NULL;

        if (!read)
                return;
        if (job) {
                *job = (struct tools_job){.read = read, .uri = *uri};
                buffer_init(&job->catalogue, CATALOGUE_TEXT_MAX);
                buffer_init(&job->result, RESULT_MAX);
        }
        if (!job || !catalogue ||
            buffer_append(&job->catalogue, buffer_bytes(catalogue), catalogue->length) < 0) {
                reply_error(&read->reply, JSONRPC_INTERNAL_ERROR, strerror(ENOMEM));
                free(job);
                read_free(read);
                return;
        }
        read->job = job;
        background_start(&job->job, &kind, server->base);
}

static struct resource_read *find_pending(const struct mcp_peer *peer, yyjson_val *id)
{
        for (struct resource_read *read = peer->server->reads; read; read = read->next) {
                if (read->peer == peer && !read->cancelled &&
                    jsonrpc_id_equals(reply_id(&read->reply), id))
                        return read;
        }
        return NULL;
}

static void cancel(struct resource_read *read)
{
        read->cancelled = true;
        reply_nothing(&read->reply);
        if (read->job)
                read_free(read);
}

bool resource_read_is_pending(const struct mcp_peer *peer, yyjson_val *id, bool cancels)
{
        struct resource_read *read = find_pending(peer, id);

        if (read && cancels)
                cancel(read);
        return read;
}

void resource_read_drop(struct mcp_peer *peer)
{
        for (struct resource_read *read = peer->server->reads, *next; read; read = next) {
                next = read->next;
                if (read->peer != peer)
                        continue;
                read->peer = NULL;
                if (!read->cancelled)
                        cancel(read);
        }
}
