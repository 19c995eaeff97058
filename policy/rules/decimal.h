/* Numbers of JSON as decimals of any size, compared by their text: a double would hold 9007199254740993 for ...992. */
#pragma once

#include <stddef.h>

/* a and b are numbers of JSON. Returns less than, equal to or more than 0, as memcmp(). */
int decimal_compare(const char *a, size_t n, const char *b, size_t m);
