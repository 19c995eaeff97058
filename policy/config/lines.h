/* Which line of a file a value of its document stands in. */
#pragma once

#include <stddef.h>
#include <yyjson.h>

/* Goes through the text once if the values come in the order of the text. */
struct config_lines {
        const char *begin, *end; /* borrowed */
        const yyjson_val *root;
        const char *p;
        size_t line, index; /* of the value at p */
};

/* data and n are what json_parse_config() made the document under root of. */
void config_lines_init(struct config_lines *lines, const char *data, size_t n,
                       const yyjson_val *root);

/* The line, from 1, where a value (or a key) of the document begins; 0 when it is not in it. */
size_t config_line_of(struct config_lines *lines, const yyjson_val *value);
