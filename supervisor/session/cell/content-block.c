/* Content blocks of MCP. */
#include "supervisor/session/cell/content-block.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"

enum { MEMBERS_MAX = 16 };

static bool has_text(yyjson_val *object, const char *key)
{
        return yyjson_is_str(yyjson_obj_get(object, key));
}

static bool has_base64(yyjson_val *object, const char *key)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        return text && base64_valid(text, n, NULL);
}

static bool is_absent_or(yyjson_val *value, bool (*is)(yyjson_val *value))
{
        return !value || is(value);
}

static bool is_object(yyjson_val *value)
{
        return yyjson_is_obj(value);
}

static bool is_text(yyjson_val *value)
{
        return yyjson_is_str(value);
}

int content_resource_check(yyjson_val *resource, bool needs_uri, struct error *err)
{
        if (!yyjson_is_obj(resource) || yyjson_obj_size(resource) > MEMBERS_MAX)
                return error_set(err, EBADMSG, "a resource is an object");
        if (!is_absent_or(yyjson_obj_get(resource, "uri"), is_text) ||
            (needs_uri && !yyjson_obj_get(resource, "uri")))
                return error_set(err, EBADMSG, "a resource needs a uri");
        if (!is_absent_or(yyjson_obj_get(resource, "mimeType"), is_text))
                return error_set(err, EBADMSG, "a resource's mimeType is a text");
        if (!is_absent_or(yyjson_obj_get(resource, "_meta"), is_object))
                return error_set(err, EBADMSG, "a resource's _meta is an object");
        if (has_text(resource, "text") == has_base64(resource, "blob"))
                return error_set(err, EBADMSG, "a resource needs one of text and blob (base64)");
        return 0;
}

static bool is_link(yyjson_val *block)
{
        return has_text(block, "uri") && has_text(block, "name") &&
               is_absent_or(yyjson_obj_get(block, "mimeType"), is_text) &&
               is_absent_or(yyjson_obj_get(block, "title"), is_text) &&
               is_absent_or(yyjson_obj_get(block, "description"), is_text);
}

int content_block_check(yyjson_val *block, struct error *err)
{
        const char *type = json_string(block, "type", NULL);
        bool good = false;

        if (!yyjson_is_obj(block) || yyjson_obj_size(block) > MEMBERS_MAX || !type)
                return error_set(err, EBADMSG, "a content block is an object with a type");
        if (!is_absent_or(yyjson_obj_get(block, "annotations"), is_object) ||
            !is_absent_or(yyjson_obj_get(block, "_meta"), is_object))
                return error_set(err, EBADMSG,
                                 "annotations and _meta of a content block are objects");
        if (strcmp(type, "text") == 0)
                good = has_text(block, "text");
        else if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0)
                good = has_base64(block, "data") && has_text(block, "mimeType");
        else if (strcmp(type, "resource_link") == 0)
                good = is_link(block);
        else if (strcmp(type, "resource") == 0)
                return content_resource_check(yyjson_obj_get(block, "resource"), true, err);
        return good ? 0
                    : error_set(err, EBADMSG,
                                "a content block of a type that is unknown or lacks its members");
}
