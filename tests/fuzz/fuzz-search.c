/* The search of tools: a line with what is searched for, then the texts of a server, one a line, which become
 * names, descriptions and parameters in turn. Accepted when anything is found. The answer is JSON, and a
 * tool is found by its own name. */
#include "supervisor/hub/tool-index.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"

enum { TOOLS_MAX = 16, SIZE_MAX_HERE = 256 * 1024 };

struct line {
        const char *at;
        size_t n;
};

static struct line take_line(const char **at, const char *end)
{
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        struct line line = {*at, (size_t)((stop ? stop : end) - *at)};

        *at = stop ? stop + 1 : end;
        return line;
}

static void append_tool(struct buffer *b, const char **at, const char *end)
{
        struct line name = take_line(at, end), description = take_line(at, end),
                    parameter = take_line(at, end);

        buffer_append_text(b, "{\"name\":");
        json_append_string(b, name.at, name.n);
        buffer_append_text(b, ",\"description\":");
        json_append_string(b, description.at, description.n);
        buffer_append_text(b, ",\"inputSchema\":{\"properties\":{");
        json_append_string(b, parameter.at, parameter.n);
        buffer_append_text(b, ":{}}}}");
}

/* Returns how many tools were found. */
static size_t find(struct tool_index *index, const char *query, size_t n, size_t limit)
{
        _cleanup_buffer_ struct buffer found = BUFFER_INIT(TOOL_SEARCH_ANSWER_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;

        assert(tool_index_search(index, query, n, limit, &found) == 0);
        assert(json_parse(buffer_bytes(&found), found.length, &doc, NULL) == 0);
        yyjson_val *tools = yyjson_obj_get(yyjson_doc_get_root(doc), "tools");
        assert(yyjson_is_arr(tools) && yyjson_arr_size(tools) <= limit);
        return yyjson_arr_size(tools);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer catalogue = BUFFER_INIT(8 * SIZE_MAX_HERE);
        const char *at = (const char *)data, *end = at + n;

        if (n == 0 || n > SIZE_MAX_HERE)
                return false;
        struct line query = take_line(&at, end), server = take_line(&at, end);
        buffer_append_text(&catalogue, "{\"servers\":[{\"name\":");
        json_append_string(&catalogue, server.at, server.n);
        buffer_append_text(&catalogue, ",\"tools\":[");
        const char *first = at;
        for (int i = 0; i < TOOLS_MAX && at < end; i++) {
                if (i > 0)
                        buffer_append(&catalogue, ",", 1);
                append_tool(&catalogue, &at, end);
        }
        buffer_append_text(&catalogue, "]}]}");
        struct tool_index *index = tool_index_new(&catalogue);
        assert(index);
        size_t hits = find(index, query.at, query.n, 5);
        if (first < end) {
                struct line name = take_line(&first, end);
                bool cut = name.n > TOOL_SEARCH_BYTES_MAX;
                assert(cut || find(index, name.at, name.n, TOOLS_MAX) > 0);
        }
        tool_index_unref(index);
        return hits > 0;
}

FUZZ_TARGET
