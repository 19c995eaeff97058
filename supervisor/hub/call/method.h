/* The methods that code can call besides tools/call. */
#pragma once

#include <stdbool.h>

struct hub_method {
        const char *name;
        bool needs_prompts; /* the capability that it needs; otherwise resources */
};

/* NULL: there is no such method. */
const struct hub_method *hub_method_of(const char *name);
/* Its name, as the same string for each call; or NULL. */
const char *hub_method_find(const char *name);
