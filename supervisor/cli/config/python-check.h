/* The interpreters that `cloister config check` finds for profiles whose "python" is a version. */
#pragma once

#include <stdbool.h>

#include "base/json-out.h"
#include "policy/config/config.h"
#include "supervisor/pythons/pythons.h"

struct python_check {
        struct pythons *found; /* NULL: no profile names a version, and nothing was searched for */
};

/* Searches as the user that images are made as. Call python_check_done() in any case. */
void python_check_init(struct python_check *check, const struct config *config);
void python_check_done(struct python_check *check);

/* The path of the interpreter of a profile's "python" (may be NULL), or NULL: it has none. */
const char *python_check_path(const struct python_check *check, const char *python);

/* Why a profile has no Python, or NULL. store: the image store, or -1. */
const char *python_check_problem(const struct python_check *check,
                                 const struct config_profile *profile, int store,
                                 struct error *why);

/* The Pythons of this machine, one line each, or as a list. */
void python_check_print(const struct python_check *check);
void python_check_put(const struct python_check *check, struct json_out *out);
