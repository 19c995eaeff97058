/* A call as people write it: "files.write_file", "notes.resources/read", "@network.connect". */
#pragma once

#include "policy/rules/rules.h"

struct named_call {
        char server[RULES_NAME_MAX + 1];
        const char *tool; /* in the name */
        struct rules_call call;
};

/*
 * The server is the one of the config whose name the name begins with, the longest; otherwise what comes before the first
 * dot. name, arguments and annotations (NULL: the defaults of the specification) are borrowed. The error is a clause. Returns
 * 0 or -EINVAL.
 */
int named_call_init(struct named_call *named, const char *name, yyjson_val *arguments,
                    yyjson_val *annotations, const struct rules_server *servers, size_t n_servers,
                    struct error *err);
