/* The tools of one server. */
#include "supervisor/hub/tools/tools.h"

#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#include "base/buffer.h"
#include "base/json-out.h"

enum {
        POINTER_MAX = 64 * 1024,
        HEADERS_MAX = 32, /* of a tool */
        HEADER_NAME_MAX = 128,
};

/*
 * ---- arguments as headers ----
 *
 * A server of MCP 2026-07-28 may want arguments as HTTP headers: x-mcp-header in the inputSchema ("Custom Headers from
 * Tool Parameters").
 */

struct tool_header {
        char *pointer; /* JSON pointer of the argument */
        char *name;    /* "Mcp-Param-…" */
};

struct tool_headers {
        struct tool_header *items;
        size_t n;
};

static const char annotation[] = "x-mcp-header";
static const char no_memory[] = "its headers need more memory than there is";

struct search {
        struct tool_headers *found;
        struct buffer pointer; /* of the property that is looked at */
};

static const char *search_schema(struct search *s, yyjson_val *schema, bool is_reachable);

static bool is_token(const char *text, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (!isalnum((unsigned char)text[i]) && !strchr("!#$%&'*+-.^_`|~", text[i]))
                        return false;
        }
        return n > 0 && strlen(text) == n;
}

static bool is_primitive(yyjson_val *type)
{
        return yyjson_equals_str(type, "string") || yyjson_equals_str(type, "integer") ||
               yyjson_equals_str(type, "boolean");
}

/* A type, or several of which null may be one. */
static bool may_be_mirrored(yyjson_val *type)
{
        size_t i, n;
        yyjson_val *one;

        if (!yyjson_is_arr(type))
                return is_primitive(type);
        yyjson_arr_foreach (type, i, n, one) {
                if (!is_primitive(one) && !yyjson_equals_str(one, "null"))
                        return false;
        }
        return n > 0;
}

static bool is_taken(const struct tool_headers *found, const char *name)
{
        for (size_t i = 0; i < found->n; i++) {
                if (strcasecmp(found->items[i].name + strlen("Mcp-Param-"), name) == 0)
                        return true;
        }
        return false;
}

static const char *add(struct search *s, yyjson_val *schema, yyjson_val *value)
{
        struct tool_headers *found = s->found;
        const char *name = yyjson_get_str(value);

        if (!yyjson_is_str(value) || yyjson_get_len(value) > HEADER_NAME_MAX ||
            !is_token(name, yyjson_get_len(value)))
                return "an x-mcp-header of its inputSchema cannot be a header's name";
        if (!may_be_mirrored(yyjson_obj_get(schema, "type")))
                return "an x-mcp-header of its inputSchema is not at a string, integer or boolean";
        if (is_taken(found, name))
                return "two x-mcp-header of its inputSchema have the same name";
        if (found->n == HEADERS_MAX)
                return "its inputSchema has more than 32 x-mcp-header";
        struct tool_header *items = reallocarray(found->items, found->n + 1, sizeof(*items));
        if (!items)
                return no_memory;
        found->items = items;
        struct tool_header *item = &items[found->n];
        *item = (struct tool_header){
                .pointer = strndup(buffer_bytes(&s->pointer), s->pointer.length)};
        if (asprintf(&item->name, "Mcp-Param-%s", name) < 0)
                item->name = NULL;
        found->n++;
        return item->pointer && item->name ? NULL : no_memory;
}

/* RFC 6901: ~ and / are escaped. */
static int append_step(struct buffer *pointer, const char *name, size_t n)
{
        int r = buffer_append(pointer, "/", 1);

        for (size_t i = 0; i < n && r >= 0; i++) {
                if (name[i] == '~')
                        r = buffer_append(pointer, "~0", 2);
                else if (name[i] == '/')
                        r = buffer_append(pointer, "~1", 2);
                else
                        r = buffer_append(pointer, &name[i], 1);
        }
        return r;
}

/* An object whose members are schemas. */
static const char *search_members(struct search *s, yyjson_val *members, bool are_properties)
{
        size_t i, n, before = s->pointer.length;
        const char *fault = NULL;
        yyjson_val *key, *value;

        yyjson_obj_foreach (members, i, n, key, value) {
                if (are_properties &&
                    append_step(&s->pointer, yyjson_get_str(key), yyjson_get_len(key)) < 0)
                        return no_memory;
                fault = search_schema(s, value, are_properties);
                s->pointer.length = before;
                if (fault)
                        return fault;
        }
        return NULL;
}

static const char *search_list(struct search *s, yyjson_val *list)
{
        size_t i, n;
        yyjson_val *value;

        yyjson_arr_foreach (list, i, n, value) {
                const char *fault = search_schema(s, value, false);
                if (fault)
                        return fault;
        }
        return NULL;
}

static bool is_one_of(const char *key, const char *const *names)
{
        for (; *names; names++) {
                if (strcmp(key, *names) == 0)
                        return true;
        }
        return false;
}

/* The value of a keyword of a schema. */
static const char *search_keyword(struct search *s, const char *key, yyjson_val *value,
                                  bool is_reachable)
{
        static const char *const values[] = {"default", "const", "enum", "examples", NULL};
        static const char *const maps[] = {"$defs", "definitions", "patternProperties",
                                           "dependentSchemas", NULL};

        if (is_one_of(key, values))
                return NULL;
        if (strcmp(key, "properties") == 0)
                return search_members(s, value, is_reachable);
        if (is_one_of(key, maps))
                return search_members(s, value, false);
        return yyjson_is_arr(value) ? search_list(s, value) : search_schema(s, value, false);
}

/* is_reachable: from the root by "properties" only. The depth of the tool was checked. */
static const char *search_schema(struct search *s, yyjson_val *schema, bool is_reachable)
{
        yyjson_val *value = yyjson_obj_get(schema, annotation), *key;
        const char *fault = NULL;
        size_t i, n;

        if (!yyjson_is_obj(schema))
                return NULL;
        if (value && (!is_reachable || s->pointer.length == 0))
                return "an x-mcp-header of its inputSchema is not at a property that is always there";
        if (value)
                fault = add(s, schema, value);
        yyjson_obj_foreach (schema, i, n, key, value) {
                if (!fault)
                        fault = search_keyword(s, yyjson_get_str(key), value, is_reachable);
        }
        return fault;
}

/* Finds those of a tool. Returns how its schema breaks the rules: then the tool must not be used; NULL for a
 * valid schema. *ret is empty before, and must be freed in both cases. Out of memory is a reason too. */
static const char *find_headers(yyjson_val *schema, struct tool_headers *ret)
{
        struct search s = {.found = ret, .pointer = BUFFER_INIT(POINTER_MAX)};
        const char *fault = search_schema(&s, schema, true);

        buffer_done(&s.pointer);
        return fault;
}

static void tool_headers_done(struct tool_headers *headers)
{
        for (size_t i = 0; i < headers->n; i++) {
                free(headers->items[i].pointer);
                free(headers->items[i].name);
        }
        free(headers->items);
}

/* ---- tools ---- */

struct tool {
        STAILQ_ENTRY(tool) link;
        char *name;
        size_t at, length;  /* in the text */
        bool is_task;       /* must run as a task */
        yyjson_doc *parsed; /* for hub_tools_get(), or NULL */
        struct tool_headers headers;
};

struct hub_tools {
        struct buffer text;
        STAILQ_HEAD(, tool) list; /* in the order of the server */
        void *by_name;            /* the list as a tree (tsearch) */
        size_t n;
        bool uses_headers;
        size_t n_left_out;
        size_t values;
        struct error why; /* the first one was left out */
};

struct hub_tools *hub_tools_new(void)
{
        struct hub_tools *tools = calloc(1, sizeof(*tools));

        if (!tools)
                return NULL;
        buffer_init(&tools->text, HUB_TOOLS_BYTES_MAX);
        STAILQ_INIT(&tools->list);
        return tools;
}

static void tool_free(void *data)
{
        struct tool *tool = data;

        tool_headers_done(&tool->headers);
        yyjson_doc_free(tool->parsed);
        free(tool->name);
        free(tool);
}

struct hub_tools *hub_tools_free(struct hub_tools *tools)
{
        if (!tools)
                return NULL;
        tdestroy(tools->by_name, tool_free);
        buffer_done(&tools->text);
        free(tools);
        return NULL;
}

static int compare(const void *a, const void *b)
{
        return strcmp(((const struct tool *)a)->name, ((const struct tool *)b)->name);
}

static const struct tool *find(const struct hub_tools *tools, const char *name)
{
        const struct tool key = {.name = (char *)(uintptr_t)name};
        struct tool *const *found = tfind(&key, &tools->by_name, compare);

        return found ? *found : NULL;
}

/* As in base/json.c, for a value within a document: containers hold the distance to their end. */
static bool is_too_deep(yyjson_val *root)
{
        yyjson_val *ends[HUB_TOOL_DEPTH_MAX];
        yyjson_val *last = unsafe_yyjson_get_next(root);
        size_t depth = 0;

        for (yyjson_val *value = root; value < last; value++) {
                while (depth > 0 && value >= ends[depth - 1])
                        depth--;
                if (!yyjson_is_ctn(value))
                        continue;
                if (depth == HUB_TOOL_DEPTH_MAX)
                        return true;
                ends[depth++] = unsafe_yyjson_get_next(value);
        }
        return false;
}

/* Why this tool cannot be used; NULL if it can. */
static const char *find_fault(const struct hub_tools *tools, yyjson_val *tool)
{
        size_t length = 0;
        const char *name = json_string(tool, "name", &length);
        yyjson_val *schema = yyjson_obj_get(tool, "inputSchema");

        if (!name || length == 0)
                return "it has no name";
        if (length > HUB_TOOL_NAME_MAX || strlen(name) != length)
                return "its name is too long or holds a NUL";
        if (schema && !yyjson_is_obj(schema))
                return "its inputSchema is not an object";
        if (is_too_deep(tool))
                return "it is nested too deep";
        if (find(tools, name))
                return "another tool of this server has the same name";
        return NULL;
}

static bool is_task(yyjson_val *tool)
{
        return yyjson_equals_str(yyjson_ptr_get(tool, "/execution/taskSupport"), "required");
}

static void append_object(struct json_out *out, yyjson_val *tool, const char *key)
{
        yyjson_val *value = yyjson_obj_get(tool, key);

        if (yyjson_is_obj(value))
                json_out_value(out, key, value);
}

/* One tool as the catalogue has it. Returns 0, -EMSGSIZE, -ENOMEM, -EINVAL. */
static int append_tool(struct buffer *b, yyjson_val *tool)
{
        static const char any[] = "{\"type\":\"object\"}",
                          task[] = "{\"taskSupport\":\"required\"}";
        yyjson_val *text = yyjson_obj_get(tool, "description");
        yyjson_val *schema = yyjson_obj_get(tool, "inputSchema");
        struct json_out out = {.to = b};

        if (!yyjson_is_str(text))
                text = yyjson_obj_get(tool, "title");
        json_out_begin(&out, NULL, '{');
        json_out_value(&out, "name", yyjson_obj_get(tool, "name"));
        if (yyjson_is_str(text))
                json_out_value(&out, "description", text);
        else
                json_out_text(&out, "description", "");
        if (schema)
                json_out_value(&out, "inputSchema", schema);
        else
                json_out_raw(&out, "inputSchema", any, strlen(any));
        append_object(&out, tool, "outputSchema");
        append_object(&out, tool, "annotations");
        /* For the cache, which keeps this text. */
        if (is_task(tool))
                json_out_raw(&out, "execution", task, strlen(task));
        json_out_end(&out, '}');
        return out.error;
}

/* Registers a tool whose text, of this length, was appended last. Takes the headers. */
static int add_entry(struct hub_tools *tools, yyjson_val *value, size_t length,
                     struct tool_headers *headers)
{
        struct tool *tool = calloc(1, sizeof(*tool));

        if (!tool)
                return -ENOMEM;
        *tool = (struct tool){.name = strdup(json_string(value, "name", NULL)),
                              .at = tools->text.length - length,
                              .length = length,
                              .is_task = is_task(value)};
        if (!tool->name || !tsearch(tool, &tools->by_name, compare)) {
                tool_free(tool);
                return -ENOMEM;
        }
        tool->headers = *headers;
        *headers = (struct tool_headers){};
        STAILQ_INSERT_TAIL(&tools->list, tool, link);
        tools->n++;
        return 0;
}

static int add_text(struct hub_tools *tools, const struct buffer *text)
{
        size_t before = tools->text.length;
        int r = before > 0 ? buffer_append(&tools->text, ",", 1) : 0;

        if (r >= 0)
                r = buffer_append(&tools->text, buffer_bytes(text), text->length);
        if (r < 0)
                tools->text.length = before;
        return r;
}

static void leave_out(struct hub_tools *tools, const char *name, const char *fault)
{
        if (tools->n_left_out++ == 0)
                error_set(&tools->why, EINVAL, "\"%.64s\": %s", name ? name : "?", fault);
}

/* Returns 1 when a bound on all tools is reached, else 0 or negative errno. */
static int add_tool(struct hub_tools *tools, yyjson_val *tool)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(HUB_TOOL_BYTES_MAX);
        _cleanup_(tool_headers_done) struct tool_headers headers = {};
        const char *name = json_string(tool, "name", NULL);
        const char *fault = find_fault(tools, tool);

        if (!fault && tools->uses_headers)
                fault = find_headers(yyjson_obj_get(tool, "inputSchema"), &headers);
        int r = fault ? 0 : append_tool(&text, tool);
        if (r == -EMSGSIZE)
                fault = "it is larger than 1 MiB";
        else if (r < 0)
                return r;
        if (fault) {
                leave_out(tools, name, fault);
                return 0;
        }
        size_t values = (size_t)(unsafe_yyjson_get_next(tool) - tool);
        r = tools->n == HUB_TOOLS_MAX || tools->values + values > HUB_TOOLS_VALUES_MAX
                    ? -EMSGSIZE
                    : add_text(tools, &text);
        if (r == -EMSGSIZE) {
                leave_out(
                        tools, name,
                        "only 10,000 tools of 5 MiB and 200,000 values together are taken of a server");
                return 1;
        }
        tools->values += values;
        return r < 0 ? r : add_entry(tools, tool, text.length, &headers);
}

int hub_tools_add(struct hub_tools *tools, yyjson_val *list)
{
        size_t i, n;
        yyjson_val *tool;

        if (!yyjson_is_arr(list))
                return -EINVAL;
        yyjson_arr_foreach (list, i, n, tool) {
                int r = add_tool(tools, tool);
                if (r != 0)
                        return r;
        }
        return 0;
}

size_t hub_tools_left_out(const struct hub_tools *tools, const char **why)
{
        *why = tools->why.text;
        return tools->n_left_out;
}

size_t hub_tools_count(const struct hub_tools *tools)
{
        return tools->n;
}

size_t hub_tools_values(const struct hub_tools *tools)
{
        return tools->values;
}

bool hub_tools_has(const struct hub_tools *tools, const char *name)
{
        return find(tools, name);
}

bool hub_tools_needs_task(const struct hub_tools *tools, const char *name)
{
        const struct tool *tool = find(tools, name);

        return tool && tool->is_task;
}

void hub_tools_use_headers(struct hub_tools *tools)
{
        tools->uses_headers = true;
}

void hub_tools_mirror(const struct hub_tools *tools, const char *name, yyjson_val *arguments,
                      void (*add_one)(void *to, const char *name, const char *value, size_t n),
                      void *to)
{
        const struct tool *tool = find(tools, name);

        for (size_t i = 0; tool && i < tool->headers.n; i++) {
                const struct tool_header *item = &tool->headers.items[i];
                yyjson_val *value = yyjson_ptr_get(arguments, item->pointer);
                char number[32];
                int64_t whole;

                if (yyjson_is_bool(value))
                        add_one(to, item->name, yyjson_get_bool(value) ? "true" : "false",
                                yyjson_get_bool(value) ? 4 : 5);
                else if (yyjson_is_str(value))
                        add_one(to, item->name, yyjson_get_str(value), yyjson_get_len(value));
                else if (json_is_number(value) && json_int64(value, &whole) == 0)
                        add_one(to, item->name, number,
                                (size_t)snprintf(number, sizeof(number), "%lld", (long long)whole));
        }
}

yyjson_val *hub_tools_get(const struct hub_tools *tools, const char *name)
{
        struct tool *tool = (struct tool *)(uintptr_t)find(tools, name);

        if (tool && !tool->parsed &&
            json_parse(buffer_bytes(&tools->text) + tool->at, tool->length, &tool->parsed, NULL) <
                    0)
                tool->parsed = NULL;
        return tool ? yyjson_doc_get_root(tool->parsed) : NULL;
}

bool hub_tools_equal(const struct hub_tools *a, const struct hub_tools *b)
{
        return a->text.length == b->text.length &&
               (a->text.length == 0 ||
                memcmp(buffer_bytes(&a->text), buffer_bytes(&b->text), a->text.length) == 0);
}

const struct buffer *hub_tools_text(const struct hub_tools *tools)
{
        return &tools->text;
}

/* The mark is the first member. */
static int append_marked(struct json_out *out, const char *text, size_t n, bool always)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(HUB_TOOL_BYTES_MAX + 64);

        buffer_append_text(&b, always ? "{\"asks\":\"always\"," : "{\"asks\":\"sometimes\",");
        if (buffer_append(&b, text + 1, n - 1) < 0)
                return b.error;
        json_out_raw(out, NULL, buffer_bytes(&b), b.length);
        return out->error;
}

int hub_tools_append(const struct hub_tools *tools, struct buffer *b,
                     enum hub_tool_mark (*mark)(void *data, const char *name, const char *text,
                                                size_t n),
                     void *data)
{
        const char *text = buffer_bytes(&tools->text);
        struct json_out out = {.to = b};
        const struct tool *tool;

        STAILQ_FOREACH (tool, &tools->list, link) {
                enum hub_tool_mark as = mark(data, tool->name, text + tool->at, tool->length);
                if (as == HUB_TOOL_PLAIN)
                        json_out_raw(&out, NULL, text + tool->at, tool->length);
                else if (as != HUB_TOOL_LEFT_OUT &&
                         append_marked(&out, text + tool->at, tool->length, as == HUB_TOOL_ASKS) <
                                 0)
                        json_out_fail(&out, -ENOMEM);
        }
        return out.error;
}
