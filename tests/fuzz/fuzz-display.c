/* A worker's DISPLAY: what is accepted can always be sent to the client, as valid JSON within bounds.
 */
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/call/result.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "base/json.h"
#include "supervisor/session/cell/cell-result.h"
#include "supervisor/session/channel/frame-body.h"

enum { MOST = 200 };

/* cell: 0, or displays that are too long are links. */
static void check_rendered(const struct cell_outcome *outcome, uint64_t cell)
{
        const struct result_options view = {
                .session = "default", .max_output = MOST, .kinds = CONTENT_ALL, .cell = cell};
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RESULT_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        struct error err = {};

        assert(result_render(outcome, &view, &b) == 0);
        assert(json_parse(buffer_bytes(&b), b.length, &doc, &err) == 0);
        yyjson_val *root = yyjson_doc_get_root(doc);
        assert(yyjson_get_len(yyjson_ptr_get(root, "/content/0/text")) > 0);
        /* A picture that was not checked is not shown. */
        assert(outcome->displays[0].is_picture ||
               json_string(yyjson_ptr_get(root, "/content/1"), "type", NULL));
        assert(json_string(yyjson_ptr_get(root, "/structuredContent/displays/0"), "mime_type",
                           NULL));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct cell_outcome outcome = {};
        struct error err = {};

        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&outcome.streams[i]);
        const struct frame_header header = {.length = (uint32_t)n, .type = FRAME_DISPLAY};
        struct frame_body body = {.bytes = (const char *)data, .n = n};
        yyjson_val *root = NULL;
        int r = frame_body_parse(&body, &header, &root, &err);
        if (r >= 0)
                r = cell_take_display(&outcome, root, NULL, &err);
        frame_body_done(&body);
        assert(r == 0 || error_is_set(&err));
        assert(outcome.n_displays == (r == 0));
        if (r == 0) {
                check_rendered(&outcome, 0);
                check_rendered(&outcome, 1);
        }
        cell_outcome_done(&outcome);
        return r == 0;
}

FUZZ_TARGET
