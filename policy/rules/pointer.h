/* A JSON pointer (RFC 6901) in which the step * is each element of an array; of another value, the value itself. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/rules/work.h"

enum { POINTER_STEPS_MAX = 32, POINTER_MAX = 1024 };

struct pointer {
        struct pointer_step {
                char *name;
                size_t n;
                bool is_each; /* * */
        } * steps;
        size_t n;
};

/* The error is a clause. Returns 0, -EINVAL or -ENOMEM. */
int pointer_parse(const char *text, size_t n, struct pointer *ret, struct error *err);
void pointer_done(struct pointer *pointer);

/* The value to which a step that is not * leads; NULL: there is none. */
yyjson_val *pointer_next(const struct pointer_step *step, yyjson_val *value,
                         struct rules_work *work);

/*
 * Calls visit() for each value that the pointer leads to, and with NULL where it leads to nothing (so for an empty array
 * too), until it returns false. is_other: NULL because a value on the way has another type than the step is for: a server
 * may find more in it, as one that takes an array for an object, or text for the JSON in it.
 */
typedef bool pointer_visit(void *data, yyjson_val *value, bool is_other);
void pointer_walk(const struct pointer *pointer, yyjson_val *root, struct rules_work *work,
                  pointer_visit *visit, void *data);
