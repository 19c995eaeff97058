/*
 * Checks a value against a JSON Schema, where no code in a sandbox does it: the words type, enum, const, anyOf, required,
 * properties, additionalProperties (false), items, and the bounds of numbers, texts and lists. Other words pass.
 */
#pragma once

#include <yyjson.h>

#include "base/error.h"

/* Checks the arguments of a call against the inputSchema of its tool. A member that is null, and that the schema does
 * not require, counts as absent. Returns 0, or -EINVAL and the first mistake: `argument "n" must be integer, not string`. */
int schema_check_arguments(yyjson_val *arguments, yyjson_val *schema, struct error *err);
