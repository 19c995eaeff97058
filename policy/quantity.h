/* Quantities as people write them: "512M" or 536870912, "1.5h" or 5400, 0.5. Numbers are raw JSON
 * or text. */
#pragma once

#include <stdint.h>
#include <yyjson.h>

/* Bytes: a whole number, or a string of a number and K, M, G or T (of 1,024; "KiB" and "KB" too).
 * Returns 0, -EINVAL for other values, -ERANGE above 2^60. */
int quantity_bytes(yyjson_val *value, uint64_t *ret);

/* Parses text as quantity_bytes() does. */
int quantity_bytes_of(const char *text, uint64_t *ret);

/* Milliseconds: a number of seconds, or a string of a number and ms, s, m or h. 0 to 2^32-1. */
int quantity_milliseconds(yyjson_val *value, uint32_t *ret);

/* Parses text as quantity_milliseconds() does; a number without a unit is one of seconds. */
int quantity_milliseconds_of(const char *text, uint32_t *ret);

/* Thousandths of a number: 0.5 is 500. */
int quantity_thousandths(yyjson_val *value, uint32_t *ret);
