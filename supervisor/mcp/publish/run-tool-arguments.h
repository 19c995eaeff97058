/* The arguments of a tool that runs the code it is given. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/config/config.h"

/* Values of the parsed request. */
struct run_tool_arguments {
        const char *code;
        size_t code_length;
        enum language language;
        const struct config_profile
                *program; /* whose "program" runs the code; NULL: the language itself */
        uint32_t timeout_ms;
        yyjson_val *needs;   /* requirements: an array of strings, or NULL */
        yyjson_val *servers; /* an array of strings, or NULL */
        const char *server;  /* of them, that does not exist for the profile; or NULL */
};

/*
 * arguments: of the call, or NULL. Returns 0, or -EINVAL with an error text for the model. ret->timeout_ms is valid in both
 * cases.
 */
int run_tool_arguments_take(yyjson_val *arguments, const struct config *config,
                            const struct config_published *tool, struct run_tool_arguments *ret,
                            struct error *err);

/* profile: of the sandbox, or NULL. Returns -EINVAL with an error text for the model if it has not all servers that are named. */
int run_tool_arguments_find_servers(struct run_tool_arguments *arguments,
                                    const struct config *config,
                                    const struct config_profile *profile, struct error *err);
