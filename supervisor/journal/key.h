/*
 * The key that signs heads: Ed25519 (RFC 8032). The file `key` of the journal's directory has its seed as 64 hexadecimal digits. A
 * public key is named by its 32 bytes, as 64 digits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "rpc/journal-messages.h"

struct journal_key;

/* Reads the key of a directory, or makes it if it does not exist. */
int journal_key_open(int directory, struct journal_key **ret, struct error *err);
/* The public key of the file; nothing is made. */
int journal_key_public(int directory, char ret[JOURNAL_HASH_SIZE], struct error *err);
void journal_key_free(struct journal_key *key);
const char *journal_key_name(const struct journal_key *key);
/* Appends the signature in base64. */
int journal_key_sign(struct journal_key *key, const void *bytes, size_t n, struct buffer *to);
/* Whether a public key has signed it; signature: base64. */
bool journal_key_verify(const char *name, const void *bytes, size_t n, const char *signature,
                        size_t n_signature);
/* Appends the public key as PEM (RFC 8410), which openssl(1) reads. */
int journal_key_pem(const char *name, struct buffer *to);
/* Reads a public key of PEM or of 64 digits. */
int journal_key_parse(const char *text, char ret[JOURNAL_HASH_SIZE], struct error *err);
