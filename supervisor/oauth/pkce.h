/* Proof Key for Code Exchange (RFC 7636) by S256, and other unguessable texts. */
#pragma once

#include "base/error.h"

enum { PKCE_LENGTH = 43 }; /* 32 bytes in base64url */

/* 256 random bits. */
int pkce_random(char ret[PKCE_LENGTH + 1], struct error *err);
/* The challenge of a verifier. */
int pkce_challenge(const char *verifier, char ret[PKCE_LENGTH + 1], struct error *err);
