/* The URI of a resource, from a client: accepted when it names one. A parsed URI is
 * written in such a way that it is parsed as the same. */
#include "supervisor/mcp/resources/resource-uri.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/file-path.h"

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(8 * RESOURCE_URI_MAX);
        struct resource_uri uri = {}, again = {};
        struct error err = {};

        if (resource_uri_parse((const char *)data, n, &uri, &err) < 0) {
                assert(error_is_set(&err));
                return false;
        }
        assert(uri.kind != RESOURCE_FILE || file_path_valid(uri.path, strlen(uri.path)));
        assert(uri.kind == RESOURCE_TOOLS || session_name_valid(uri.session, strlen(uri.session)));
        assert(resource_uri_append(&uri, &text) == 0);
        assert(resource_uri_parse(buffer_bytes(&text), text.length, &again, &err) == 0);
        assert(resource_uri_same(&uri, &again) && uri.offset == again.offset);
        return true;
}

FUZZ_TARGET
