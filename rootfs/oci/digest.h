/* SHA-256 digests of blobs: "sha256:" and 64 hexadecimal digits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DIGEST_BYTES = 32, DIGEST_HEX = 64 };

struct digest {
        uint8_t bytes[DIGEST_BYTES];
};

/* The 64 digits, without a prefix, in lower case. */
bool digest_parse_hex(const char *hex, size_t n, struct digest *ret);
/* "sha256:…". An error names the algorithm that it has instead. */
int digest_parse(const char *text, struct digest *ret, struct error *err);
void digest_hex(const struct digest *digest, char ret[DIGEST_HEX + 1]);

struct hash;

/* Call once before the process is confined: the library reads its settings. NULL without memory. */
struct hash *hash_new(void);
struct hash *hash_free(struct hash *hash);
#define _cleanup_hash_ _cleanup_(cleanup_hash)
static inline void cleanup_hash(struct hash **hash)
{
        hash_free(*hash);
}

/* Begins again. */
int hash_begin(struct hash *hash);
int hash_add(struct hash *hash, const void *data, size_t n);
int hash_end(struct hash *hash, struct digest *ret);
