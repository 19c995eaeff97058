/* The name of one server among several (docs/service.md, "Several hosts"). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { NODE_NAME_MAX = 16 };

#define NODE_NAME_RULE "1 to 16 lower-case letters and digits"

/* Whether it matches [a-z0-9]{1,16}: such a name is the same in a header, a pattern of a proxy and a label. */
bool node_name_valid(const char *name, size_t n);
