/* The search of tools: a line with the query, then the texts of a server, one per line, which become names,
 * descriptions and parameters in turn. Accepted when anything is found. The answer is JSON, and a tool is
 * found by its own name. Whether a tool is found does not depend on the other tools, and of two tools the
 * same one comes first if these are the only ones. */
#include "supervisor/hub/tools/tool-search.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"

enum { TOOLS_MAX = 16, SIZE_MAX_HERE = 256 * 1024 };

struct line {
        const char *at;
        size_t n;
};

struct input {
        struct line query, server;
        struct line tools[TOOLS_MAX][3];
        int n;
};

static struct line take_line(const char **at, const char *end)
{
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        struct line line = {*at, (size_t)((stop ? stop : end) - *at)};

        *at = stop ? stop + 1 : end;
        return line;
}

/* The place is what the answer is compared by: names may be the same. */
static void append_tool(struct buffer *b, const struct line *lines, int place)
{
        buffer_append_text(b, "{\"name\":");
        json_append_string(b, lines[0].at, lines[0].n);
        buffer_append_text(b, ",\"description\":");
        json_append_string(b, lines[1].at, lines[1].n);
        buffer_append_text(b, ",\"inputSchema\":{\"properties\":{");
        json_append_string(b, lines[2].at, lines[2].n);
        buffer_printf(b, ":{}}},\"annotations\":{\"place\":%d}}", place);
}

/* Searches the tools of the mask. Returns the places in the order in which they were found, and their number. */
static int find(const struct input *in, unsigned mask, struct line query, size_t limit,
                int places[TOOLS_MAX])
{
        _cleanup_buffer_ struct buffer catalogue = BUFFER_INIT(8 * SIZE_MAX_HERE);
        _cleanup_buffer_ struct buffer found = BUFFER_INIT(TOOL_SEARCH_ANSWER_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        const char *comma = "";
        yyjson_val *hit;
        size_t i, n;

        buffer_append_text(&catalogue, "{\"servers\":[{\"name\":");
        json_append_string(&catalogue, in->server.at, in->server.n);
        buffer_append_text(&catalogue, ",\"tools\":[");
        for (int j = 0; j < in->n; j++) {
                if (!(mask & 1U << j))
                        continue;
                buffer_append_text(&catalogue, comma);
                append_tool(&catalogue, in->tools[j], j);
                comma = ",";
        }
        buffer_append_text(&catalogue, "]}]}");
        assert(tool_search(&catalogue, query.at, query.n, limit, &found) == 0);
        assert(json_parse(buffer_bytes(&found), found.length, &doc, NULL) == 0);
        yyjson_val *tools = yyjson_obj_get(yyjson_doc_get_root(doc), "tools");
        assert(yyjson_is_arr(tools) && yyjson_arr_size(tools) <= limit);
        yyjson_arr_foreach (tools, i, n, hit) {
                int64_t place = -1;
                assert(json_int64(yyjson_ptr_get(hit, "/tool/annotations/place"), &place) == 0);
                assert(place >= 0 && place < in->n && mask & 1U << place);
                places[i] = (int)place;
        }
        return (int)yyjson_arr_size(tools);
}

static void check_order(const struct input *in, const int *places, int hits)
{
        int alone[TOOLS_MAX];
        unsigned found = 0;

        for (int i = 0; i < hits; i++)
                found |= 1U << places[i];
        for (int i = 0; i < in->n; i++)
                assert((find(in, 1U << i, in->query, TOOLS_MAX, alone) == 1) ==
                       !!(found & 1U << i));
        for (int i = 0; i + 1 < hits; i++) {
                unsigned both = 1U << places[i] | 1U << places[i + 1];
                assert(find(in, both, in->query, TOOLS_MAX, alone) == 2);
                assert(alone[0] == places[i]);
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *at = (const char *)data, *end = at + n;
        int places[TOOLS_MAX], few[TOOLS_MAX];
        static struct input in;

        if (n == 0 || n > SIZE_MAX_HERE)
                return false;
        in.query = take_line(&at, end);
        in.server = take_line(&at, end);
        for (in.n = 0; in.n < TOOLS_MAX && at < end; in.n++) {
                for (int i = 0; i < 3; i++)
                        in.tools[in.n][i] = take_line(&at, end);
        }
        int hits = find(&in, ~0U, in.query, TOOLS_MAX, places);
        assert(find(&in, ~0U, in.query, 5, few) == (hits < 5 ? hits : 5));
        check_order(&in, places, hits);
        if (in.n > 0 && in.tools[0][0].n <= TOOL_SEARCH_BYTES_MAX)
                assert(find(&in, ~0U, in.tools[0][0], TOOLS_MAX, few) > 0);
        return hits > 0;
}

FUZZ_TARGET
