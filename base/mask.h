/*
 * Masks secrets in a log, or in a config that is printed.
 *
 * Two kinds are found. Literal secrets are registered by the caller (the values of a server's
 * environment). Others are recognised by their form: the prefixes that services give their tokens
 * (GitHub's "About authentication to GitHub", Slack's "Token types", AWS's "Unique ID prefixes",
 * RFC 7519 for JWT), what follows "Bearer" (RFC 6750), and what is assigned to a name such as
 * API_KEY. This finds common forms only; it is not a security boundary.
 */
#pragma once

#include <stdbool.h>

enum {
        MASK_LENGTH_MIN = 6, /* a shorter literal would mask ordinary words */
        MASK_SECRETS_MAX = 1024,
};

/* Registers a literal secret, which is copied. Those that are too short or too many are ignored. */
void mask_add(const char *secret);

/* Forgets one, which is not valid any more. NULL is allowed. */
void mask_drop(const char *secret);

/* Replaces all secrets by "***", in place: the text never grows. */
void mask_text(char *text);

/* Whether a variable or an option of this name holds a secret, judging by its words: API_KEY,
 * github-token, DB_PASSWORD. */
bool mask_name_is_secret(const char *name);

/* Whether a value has the form of a secret. */
bool mask_value_is_secret(const char *value);
