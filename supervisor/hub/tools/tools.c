/* The tools of one server. */
#include "supervisor/hub/tools/tools.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/hub/tools/headers.h"

/* Where a tool is in the text. */
struct place {
        const char *name;
        size_t at, length;
};

struct hub_tools {
        struct buffer text;
        char **names;         /* in the order of the list until sealed, then sorted */
        struct place *places; /* in the order of the list */
        size_t n;
        bool uses_headers;
        struct tool_with_headers {
                const char *name;
                struct tool_headers headers;
        } * with_headers;
        size_t n_with_headers;
        const char **tasks; /* the names of those that must run as tasks; sorted once sealed */
        size_t n_tasks;
        size_t allocated;
        void *seen; /* the names as a tree (tsearch), to find duplicates while adding */
        bool sealed;
        size_t n_left_out;
        size_t values;
        struct error why; /* the first one was left out */
};

struct hub_tools *hub_tools_new(void)
{
        struct hub_tools *tools = calloc(1, sizeof(*tools));
        if (tools)
                buffer_init(&tools->text, HUB_TOOLS_BYTES_MAX);
        return tools;
}

static void keep(void *name)
{
        (void)name;
}

struct hub_tools *hub_tools_free(struct hub_tools *tools)
{
        if (!tools)
                return NULL;
        tdestroy(tools->seen, keep);
        for (size_t i = 0; i < tools->n; i++)
                free(tools->names[i]);
        for (size_t i = 0; i < tools->n_with_headers; i++)
                tool_headers_done(&tools->with_headers[i].headers);
        free(tools->with_headers);
        free(tools->names);
        free(tools->tasks);
        free(tools->places);
        buffer_done(&tools->text);
        free(tools);
        return NULL;
}

static int compare(const void *a, const void *b)
{
        return strcmp(a, b);
}

static int compare_entries(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
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
        if (tfind(name, &tools->seen, compare))
                return "another tool of this server has the same name";
        return NULL;
}

static int append_value(struct buffer *b, const char *key, yyjson_val *value)
{
        int r = buffer_printf(b, ",\"%s\":", key);
        return r < 0 ? r : json_append(b, value);
}

static int append_description(struct buffer *b, yyjson_val *tool)
{
        static const char *const keys[] = {"description", "title"};

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                yyjson_val *value = yyjson_obj_get(tool, keys[i]);
                if (yyjson_is_str(value))
                        return append_value(b, "description", value);
        }
        return buffer_append_text(b, ",\"description\":\"\"");
}

static int append_schema(struct buffer *b, yyjson_val *tool)
{
        static const char any[] = ",\"inputSchema\":{\"type\":\"object\"}";
        yyjson_val *schema = yyjson_obj_get(tool, "inputSchema");

        return schema ? append_value(b, "inputSchema", schema) : buffer_append(b, any, strlen(any));
}

static int append_optional(struct buffer *b, yyjson_val *tool, const char *key)
{
        yyjson_val *value = yyjson_obj_get(tool, key);

        return yyjson_is_obj(value) ? append_value(b, key, value) : 0;
}

static bool is_task(yyjson_val *tool)
{
        return yyjson_equals_str(yyjson_ptr_get(tool, "/execution/taskSupport"), "required");
}

/* One tool as the catalogue has it. Returns 0, -EMSGSIZE, -ENOMEM, -EINVAL. */
static int append_tool(struct buffer *b, yyjson_val *tool)
{
        int r = buffer_append_text(b, "{\"name\":");

        if (r >= 0)
                r = json_append(b, yyjson_obj_get(tool, "name"));
        if (r >= 0)
                r = append_description(b, tool);
        if (r >= 0)
                r = append_schema(b, tool);
        if (r >= 0)
                r = append_optional(b, tool, "outputSchema");
        if (r >= 0)
                r = append_optional(b, tool, "annotations");
        /* For the cache, which keeps this text. */
        if (r >= 0 && is_task(tool))
                r = buffer_append_text(b, ",\"execution\":{\"taskSupport\":\"required\"}");
        return r < 0 ? r : buffer_append(b, "}", 1);
}

static int make_room(struct hub_tools *tools)
{
        if (tools->n < tools->allocated)
                return 0;
        size_t more = tools->allocated ? tools->allocated * 2 : 16;
        char **names = reallocarray(tools->names, more, sizeof(*names));
        if (!names)
                return -ENOMEM;
        tools->names = names;
        struct place *places = reallocarray(tools->places, more, sizeof(*places));
        if (!places)
                return -ENOMEM;
        tools->places = places;
        tools->allocated = more;
        return 0;
}

static int make_room_for_task(struct hub_tools *tools)
{
        const char **tasks = reallocarray(tools->tasks, tools->n_tasks + 1, sizeof(*tasks));

        if (!tasks)
                return -ENOMEM;
        tools->tasks = tasks;
        return 0;
}

/* Registers a tool whose text, of this length, was appended last. */
static int add_name(struct hub_tools *tools, const char *name, size_t length, bool as_task)
{
        int r = make_room(tools);

        if (r >= 0 && as_task)
                r = make_room_for_task(tools);
        if (r < 0)
                return r;
        char *copy = strdup(name);
        if (!copy || !tsearch(copy, &tools->seen, compare)) {
                free(copy);
                return -ENOMEM;
        }
        tools->places[tools->n] = (struct place){copy, tools->text.length - length, length};
        tools->names[tools->n++] = copy;
        if (as_task)
                tools->tasks[tools->n_tasks++] = copy;
        return 0;
}

/* Registers the headers of the tool that was added last. */
static int add_headers(struct hub_tools *tools, struct tool_headers *headers)
{
        struct tool_with_headers *grown;

        if (headers->n == 0)
                return 0;
        grown = reallocarray(tools->with_headers, tools->n_with_headers + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        tools->with_headers = grown;
        grown[tools->n_with_headers++] = (struct tool_with_headers){
                tools->places[tools->n - 1].name, *headers};
        *headers = (struct tool_headers){};
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

static size_t values_of(yyjson_val *tool)
{
        return (size_t)(unsafe_yyjson_get_next(tool) - tool);
}

/* Returns 1 when a bound on all tools is reached, else 0 or negative errno. */
static int add_tool(struct hub_tools *tools, yyjson_val *tool)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(HUB_TOOL_BYTES_MAX);
        _cleanup_(tool_headers_done) struct tool_headers headers = {};
        const char *name = json_string(tool, "name", NULL);
        const char *fault = find_fault(tools, tool);

        if (!fault && tools->uses_headers)
                fault = tool_headers_find(yyjson_obj_get(tool, "inputSchema"), &headers);
        int r = fault ? 0 : append_tool(&text, tool);
        if (r == -EMSGSIZE)
                fault = "it is larger than 1 MiB";
        else if (r < 0)
                return r;
        if (fault) {
                leave_out(tools, name, fault);
                return 0;
        }
        size_t values = values_of(tool);
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
        if (r >= 0)
                r = add_name(tools, name, text.length, is_task(tool));
        return r < 0 ? r : add_headers(tools, &headers);
}

int hub_tools_add(struct hub_tools *tools, yyjson_val *list)
{
        size_t i, n;
        yyjson_val *tool;

        if (!yyjson_is_arr(list) || tools->sealed)
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

void hub_tools_seal(struct hub_tools *tools)
{
        tdestroy(tools->seen, keep);
        tools->seen = NULL;
        if (tools->n > 0)
                qsort(tools->names, tools->n, sizeof(*tools->names), compare_entries);
        if (tools->n_tasks > 0)
                qsort(tools->tasks, tools->n_tasks, sizeof(*tools->tasks), compare_entries);
        tools->sealed = true;
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
        return tools->n > 0 &&
               bsearch(&name, tools->names, tools->n, sizeof(*tools->names), compare_entries);
}

bool hub_tools_needs_task(const struct hub_tools *tools, const char *name)
{
        return tools->n_tasks > 0 &&
               bsearch(&name, tools->tasks, tools->n_tasks, sizeof(*tools->tasks), compare_entries);
}

void hub_tools_use_headers(struct hub_tools *tools)
{
        tools->uses_headers = true;
}

void hub_tools_mirror(const struct hub_tools *tools, const char *name, yyjson_val *arguments,
                      void (*add)(void *to, const char *name, const char *value, size_t n),
                      void *to)
{
        for (size_t i = 0; i < tools->n_with_headers; i++) {
                if (strcmp(tools->with_headers[i].name, name) == 0)
                        tool_headers_mirror(&tools->with_headers[i].headers, arguments, add, to);
        }
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

int hub_tools_append(const struct hub_tools *tools, struct buffer *b,
                     bool (*is_wanted)(void *data, const char *name), void *data)
{
        const char *text = buffer_bytes(&tools->text), *comma = "";
        int r = 0;

        for (size_t i = 0; r >= 0 && i < tools->n; i++) {
                const struct place *place = &tools->places[i];
                if (!is_wanted(data, place->name))
                        continue;
                r = buffer_append_text(b, comma);
                if (r >= 0)
                        r = buffer_append(b, text + place->at, place->length);
                comma = ",";
        }
        return r < 0 ? r : 0;
}
