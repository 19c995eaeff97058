/* Text of the code in the form of a result: it stays in its member. Accepted is text that is JSON, and becomes a value. */
#include "supervisor/mcp/publish/form-result.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

#include "base/json.h"
#include "supervisor/mcp/call/result-content.h"
#include "supervisor/mcp/sink.h"

static const char form[] =
        "[{\"when\":\"no output\",\"text\":[\"none\"]},"
        "{\"when\":\"ok\",\"indent\":false,\"json\":{\"o\":{\"field\":\"stdout\",\"as\":\"json\",\"limit\":\"1M\"},\"t\":\"{stdout}\",\"s\":{\"field\":\"stdout\",\"as\":\"stripped\",\"empty\":\"\"}}},"
        "{\"text\":[{\"field\":\"stdout\",\"limit\":9,\"marker\":\"{limit}\"},\"end\"],\"join\":\"|\"}]";

static void render(const struct cell_outcome *outcome, yyjson_doc **ret)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(RESULT_MAX);
        const struct form_facts facts = {
                .form = form, .session = "s", .most = 1 << 20, .kinds = CONTENT_ALL};
        struct error err = {};

        assert(form_render(outcome, &facts, &b) == 0);
        assert(json_parse(buffer_bytes(&b), b.length, ret, &err) == 0);
        yyjson_val *root = yyjson_doc_get_root(*ret);
        assert(yyjson_obj_size(root) == 2 && yyjson_is_bool(yyjson_obj_get(root, "isError")));
        assert(yyjson_arr_size(yyjson_obj_get(root, "content")) == 1);
}

static yyjson_val *text_of(yyjson_doc *doc)
{
        yyjson_val *text = yyjson_ptr_get(yyjson_doc_get_root(doc), "/content/0/text");

        assert(yyjson_is_str(text));
        return text;
}

/* Returns whether the text became a value. */
static bool check_json(yyjson_doc *doc)
{
        _cleanup_json_ yyjson_doc *inner = NULL;
        yyjson_val *text = text_of(doc);
        struct error err = {};

        if (yyjson_equals_str(text, "none"))
                return false;
        /* A value of 128 levels is one level too deep in the form. */
        if (json_parse(yyjson_get_str(text), yyjson_get_len(text), &inner, &err) < 0)
                return true;
        yyjson_val *root = yyjson_doc_get_root(inner), *own = yyjson_obj_get(root, "o");
        assert(yyjson_obj_size(root) == 3 && own && yyjson_is_str(yyjson_obj_get(root, "t")) &&
               yyjson_is_str(yyjson_obj_get(root, "s")));
        return !yyjson_is_str(own) || !yyjson_equals(own, yyjson_obj_get(root, "t"));
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct cell_outcome outcome = {.status = CELL_OK};
        _cleanup_json_ yyjson_doc *good = NULL, *late = NULL;

        for (int i = 0; i < CELL_STREAMS; i++)
                capture_init(&outcome.streams[i]);
        assert(capture_append(&outcome.streams[CELL_STDOUT], (const char *)data, n) >= 0);
        assert(capture_finish(&outcome.streams[CELL_STDOUT]) >= 0);
        render(&outcome, &good);
        bool accepted = check_json(good);
        outcome.status = CELL_TIMEOUT;
        render(&outcome, &late);
        yyjson_val *text = text_of(late);
        assert(yyjson_get_len(text) <= 9 + 1 + 3 && yyjson_get_len(text) >= 3);
        for (int i = 0; i < CELL_STREAMS; i++)
                capture_done(&outcome.streams[i]);
        return accepted;
}

FUZZ_TARGET
