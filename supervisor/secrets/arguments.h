/*
 * Secrets in the arguments of a call: at the JSON pointers that the config lists for a tool, a string that is "${secret:NAME}" as a
 * whole becomes the value. The same text elsewhere, or inside a longer string, is passed on as it is.
 */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "policy/config/types.h"
#include "supervisor/secrets/mask.h"
#include "supervisor/secrets/values.h"

/* Whether a tool of a server may get a secret. */
bool secret_arguments_concern(const struct config_profile *profile, const char *server,
                              const char *tool);

enum { SECRET_ARGUMENTS_MAX = 1024 * 1024 /* larger ones would take too long */ };

struct secret_arguments {
        const struct config_profile *profile;
        const struct secret_values *values; /* of the profile, or NULL */
        struct secret_mask *mask;           /* gets each value that is put in, for the server */
        const char *server, *tool;
        yyjson_val *object;
        size_t n; /* its bytes as JSON, if they are many; else 0 */
};

/* Returns 0: nothing is replaced; 1: *ret is the document with the values, which the caller ends with
 * secret_arguments_free(); negative errno: a secret that the arguments name has no value (ENOKEY), or they are too large. */
int secret_arguments_replace(const struct secret_arguments *arguments, yyjson_doc **ret,
                             struct error *err);
/* Clears the strings of the document, and frees it. NULL is allowed. */
void secret_arguments_free(yyjson_doc *doc);
