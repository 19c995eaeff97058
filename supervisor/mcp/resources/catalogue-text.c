/* The catalogue of tools as text. */
#include "supervisor/mcp/resources/catalogue-text.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "supervisor/mcp/tool.h"

enum { DESCRIPTION_MAX = 300, DESCRIPTION_CUT = 120 }; /* bytes looked at; characters shown */

static const char head[] =
        "# Tools of the user's MCP servers\n"
        "In the code of run_python: await tools[\"server.tool\"](argument=value). "
        "? marks an optional argument; _schema(\"server.tool\"), or the "
        "resource cloister://tools/SERVER, has the schemas.\n";

static int append_member(yyjson_val *object, const char *key, const char *before, struct buffer *to)
{
        size_t n = 0;
        const char *text = json_string(object, key, &n);

        if (!text)
                return 0;
        int r = buffer_append_text(to, before);
        return r < 0 ? r : tool_append_clean(to, text, n);
}

static int append_description(yyjson_val *tool, struct buffer *to)
{
        size_t n = 0;
        const char *text = json_string(tool, "description", &n);

        if (!text || n == 0)
                return 0;
        size_t shown = utf8_cut(text, n, DESCRIPTION_MAX);
        shown = utf8_skip(text, shown, DESCRIPTION_CUT);
        int r = buffer_append_text(to, ": ");
        if (r >= 0)
                r = tool_append_clean(to, text, shown);
        return r < 0 || shown == n ? r : buffer_append_text(to, "…");
}

static int append_tool(yyjson_val *tool, struct buffer *to)
{
        int r = buffer_append_text(to, "- ");

        if (r >= 0)
                r = tool_append_signature(tool, to);
        if (r >= 0)
                r = append_description(tool, to);
        return r < 0 ? r : buffer_append(to, "\n", 1);
}

static int append_server(yyjson_val *server, struct buffer *to)
{
        yyjson_val *tools = yyjson_obj_get(server, "tools"), *tool;
        size_t i, n;
        int r = append_member(server, "name", "\n## ", to);

        if (r >= 0)
                r = append_member(server, "state", " (", to);
        if (r >= 0)
                r = append_member(server, "error", ": ", to);
        if (r >= 0)
                r = buffer_printf(to, "; %zu tools)\n", yyjson_arr_size(tools));
        yyjson_arr_foreach (tools, i, n, tool) {
                if (r >= 0)
                        r = append_tool(tool, to);
        }
        return r;
}

static int read_servers(const struct buffer *catalogue, yyjson_doc **doc, yyjson_val **servers)
{
        *servers = NULL;
        if (!catalogue || catalogue->length == 0)
                return 0;
        int r = json_parse(buffer_bytes(catalogue), catalogue->length, doc, NULL);
        if (r >= 0)
                *servers = yyjson_obj_get(yyjson_doc_get_root(*doc), "servers");
        return r;
}

int catalogue_append_text(const struct buffer *catalogue, struct buffer *to)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *servers, *server;
        size_t i, n;

        int r = read_servers(catalogue, &doc, &servers);
        if (r >= 0)
                r = buffer_append(to, head, sizeof(head) - 1);
        yyjson_arr_foreach (servers, i, n, server) {
                if (r >= 0 && !yyjson_equals_str(yyjson_obj_get(server, "state"), "disabled"))
                        r = append_server(server, to);
        }
        return r;
}

int catalogue_append_server(const struct buffer *catalogue, const char *name, struct buffer *to)
{
        _cleanup_json_ yyjson_doc *doc = NULL;
        yyjson_val *servers, *server;
        size_t i, n;

        int r = read_servers(catalogue, &doc, &servers);
        if (r < 0)
                return r;
        yyjson_arr_foreach (servers, i, n, server) {
                if (yyjson_equals_str(yyjson_obj_get(server, "name"), name))
                        return json_append(to, server);
        }
        return -ENOENT;
}
