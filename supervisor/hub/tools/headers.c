/* Arguments of tools as HTTP headers. */
#include "supervisor/hub/tools/headers.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"

enum { DEPTH_MAX = 100, POINTER_MAX = 64 * 1024 };

static const char annotation[] = "x-mcp-header";
static const char no_memory[] = "its headers need more memory than there is";

struct search {
        struct tool_headers *found;
        struct buffer pointer; /* of the property that is looked at */
        unsigned depth;
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

        if (!yyjson_is_str(value) || yyjson_get_len(value) > TOOL_HEADER_NAME_MAX ||
            !is_token(name, yyjson_get_len(value)))
                return "an x-mcp-header of its inputSchema cannot be a header's name";
        if (!may_be_mirrored(yyjson_obj_get(schema, "type")))
                return "an x-mcp-header of its inputSchema is not at a string, integer or boolean";
        if (is_taken(found, name))
                return "two x-mcp-header of its inputSchema have the same name";
        if (found->n == TOOL_HEADERS_MAX)
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

/* is_reachable: from the root by "properties" only. */
static const char *search_schema(struct search *s, yyjson_val *schema, bool is_reachable)
{
        yyjson_val *value = yyjson_obj_get(schema, annotation), *key;
        const char *fault = NULL;
        size_t i, n;

        if (!yyjson_is_obj(schema))
                return NULL;
        if (s->depth == DEPTH_MAX)
                return "its inputSchema is nested too deep";
        if (value && (!is_reachable || s->pointer.length == 0))
                return "an x-mcp-header of its inputSchema is not at a property that is always there";
        if (value)
                fault = add(s, schema, value);
        s->depth++;
        yyjson_obj_foreach (schema, i, n, key, value) {
                if (!fault)
                        fault = search_keyword(s, yyjson_get_str(key), value, is_reachable);
        }
        s->depth--;
        return fault;
}

const char *tool_headers_find(yyjson_val *schema, struct tool_headers *ret)
{
        struct search s = {.found = ret};

        *ret = (struct tool_headers){};
        buffer_init(&s.pointer, POINTER_MAX);
        const char *fault = search_schema(&s, schema, true);
        buffer_done(&s.pointer);
        return fault;
}

void tool_headers_done(struct tool_headers *headers)
{
        for (size_t i = 0; i < headers->n; i++) {
                free(headers->items[i].pointer);
                free(headers->items[i].name);
        }
        free(headers->items);
        *headers = (struct tool_headers){};
}

void tool_headers_mirror(const struct tool_headers *headers, yyjson_val *arguments,
                         void (*add_one)(void *to, const char *name, const char *value, size_t n),
                         void *to)
{
        for (size_t i = 0; i < headers->n; i++) {
                const struct tool_header *item = &headers->items[i];
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
