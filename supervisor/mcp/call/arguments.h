/* The arguments of run_python and run_javascript. Models write "20" for 20, null for an absent argument, or a
 * misspelled name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"
#include "supervisor/session/cell/session-name.h"

struct run_arguments {
        const char
                *code; /* in the parsed document; NULL: the call waits for code that runs already */
        size_t code_length;
        char session[SESSION_NAME_MAX + 1];
        bool session_given;
        char lost[SESSION_NAME_MAX +
                  1]; /* that the client gave, and that this node may not make; or "" */
        char from[SESSION_NAME_MAX + 1];            /* the session to branch; "": none */
        char from_checkpoint[SESSION_NAME_MAX + 1]; /* of it; "": as it is now */
        unsigned branches;                          /* 0: the session is not to be several */
        uint32_t timeout_ms;
        bool reset, check_only, rolls_back;
        bool plan, plan_only;
        bool wait_given, interrupt;
        uint32_t wait_ms;                 /* if wait_given */
        const char *restore, *checkpoint; /* in the parsed document; NULL: none was named */
        const char *profile;              /* in the parsed document; NULL: none was named */
        yyjson_val *dependencies; /* in the parsed document: an array of strings; NULL: none */
        size_t max_output;        /* characters of a stream */
        enum language language;
};

/*
 * arguments: an object, or NULL. Returns 0, or -EINVAL with an error text for the model. own: the
 * connection's profile, or NULL. ret->session is valid in both cases ("default" or "javascript" if it could not be
 * read).
 */
int run_arguments_parse(yyjson_val *arguments, const struct config *config,
                        const struct config_profile *own, enum language language,
                        struct run_arguments *ret, struct error *err);
