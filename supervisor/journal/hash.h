/* SHA-256 by libcrypto, which this process has for its signatures. */
#pragma once

#include <stddef.h>

#include "rpc/journal-messages.h"

/* Returns 0 or -ENOMEM. */
int journal_hash(const void *bytes, size_t n, char ret[JOURNAL_HASH_SIZE]);
/* n bytes as 2n lower-case hexadecimal digits and a NUL. */
void journal_hex(const unsigned char *bytes, size_t n, char *ret);
/* The reverse, of exactly 2n digits. Returns 0 or -EBADMSG. */
int journal_unhex(const char *text, size_t n, unsigned char *ret);
