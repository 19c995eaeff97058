/* SHA-256 (FIPS 180-4, 6.2), for the broker: it links no library that has it, and a library would read files to start. */
#pragma once

#include <stddef.h>

enum { SHA256_TEXT_SIZE = 2 * 32 + 1 };

/* Writes the digest of n bytes as lower-case hexadecimal digits, with a NUL. */
void sha256_text(const void *bytes, size_t n, char ret[SHA256_TEXT_SIZE]);
