/* Names and tokens that cannot be guessed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { UNGUESSABLE_LENGTH = 32 }; /* hexadecimal digits: 128 bits */

/* Writes the digits and a NUL byte. Aborts if the kernel has no random bytes. */
void unguessable(char name[UNGUESSABLE_LENGTH + 1]);

/* Whether the n bytes are the same, in a time that does not tell where they differ. */
bool unguessable_equal(const char *a, const char *b, size_t n);
