/* A worker's RESULT: what is accepted can always be sent to the client, as valid JSON that fits the
 * budget. */
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/call/result.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "base/json.h"
#include "supervisor/session/cell/cell-result.h"
#include "supervisor/session/channel/frame-body.h"

enum { MOST = 200 };

static void check_rendered(const struct cell_outcome *outcome)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RESULT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        const struct result_options view = {
                .session = "default", .max_output = MOST, .kinds = CONTENT_ALL};
        struct error err = {};

        assert(result_render(outcome, &view, &b) == 0);
        assert(json_parse(buffer_bytes(&b), b.length, &doc, &err) == 0);
        yyjson_val *root = yyjson_doc_get_root(doc);
        yyjson_val *structured = yyjson_obj_get(root, "structuredContent");
        yyjson_val *error = yyjson_obj_get(structured, "error");
        yyjson_val *value = yyjson_obj_get(structured, "value");
        assert(json_string(structured, "status", NULL) && json_string(structured, "session", NULL));
        assert(!error || (json_string(error, "type", NULL) && json_string(error, "message", NULL)));
        assert(!value || json_string(value, "repr", NULL));
        assert(yyjson_get_len(yyjson_ptr_get(root, "/content/0/text")) > 0);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const struct cell_request request = {.code = "1", .code_length = 1};
        struct error err = {};
        struct cell *cell;

        assert(cell_new(&cell, &request, &err) == 0);
        const struct frame_header header = {.length = (uint32_t)n, .type = FRAME_RESULT};
        struct frame_body body = {.bytes = (const char *)data, .n = n};
        yyjson_val *root = NULL;
        int r = frame_body_parse(&body, &header, &root, &err);
        if (r >= 0)
                r = cell_take_result(cell, &body.doc, &err);
        frame_body_done(&body);
        assert(r == 0 || error_is_set(&err));
        if (r == 0)
                check_rendered(&cell->outcome);
        cell_free(cell);
        return r == 0;
}

FUZZ_TARGET
