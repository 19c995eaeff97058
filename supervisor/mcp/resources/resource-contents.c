/* Contents of resources as JSON. */
#include "supervisor/mcp/resources/resource-contents.h"

#include <string.h>

#include "rpc/jsonrpc.h"

void resource_begin_contents(struct json_out *out, const char *uri, size_t n, const char *mime_type)
{
        json_out_begin(out, NULL, '{');
        json_out_begin(out, "contents", '[');
        json_out_begin(out, NULL, '{');
        json_out_string(out, "uri", uri, n);
        json_out_text(out, "mimeType", mime_type);
}

void resource_end_contents(struct json_out *out)
{
        json_out_end(out, '}');
        json_out_end(out, ']');
        json_out_end(out, '}');
}

static void put_item(struct json_out *out, const struct resource *resource,
                     const struct resource_uri *uri, const struct buffer *text)
{
        bool json = uri->kind == RESOURCE_RECEIPT || (uri->kind == RESOURCE_TOOLS && uri->path[0]);

        json_out_begin(out, NULL, '{');
        resource_uri_put(out, "uri", uri);
        json_out_text(out, "mimeType",
                      uri->kind == RESOURCE_DISPLAY ? resource->mime_type
                      : json                        ? "application/json"
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

int resource_append_contents(const struct resource *resource, const struct resource_uri *uri,
                             struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_begin(&out, "contents", '[');
        /* A blob is in one piece: the limit of a call's displays is that of a file. */
        if (resource->is_blob)
                put_item(&out, resource, uri, &resource->head);
        int r = resource->is_blob ? 0 : put_text(&out, resource, uri);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
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
