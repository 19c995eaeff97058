/*
 * Secrets in text that somebody will read: a log, a config that is shown.
 *
 * Two kinds are known. Literal ones are added by who knows them (the values of a server's
 * environment). Others are known by their look: the prefixes that services give their tokens
 * (GitHub's "About authentication to GitHub", Slack's "Token types", AWS's "Unique ID prefixes",
 * RFC 7519 for JWT), what follows "Bearer" (RFC 6750), and what is assigned to a name such as
 * API_KEY. This catches what is common, and is no boundary.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        MASK_LENGTH_MIN = 6, /* a shorter literal would mask ordinary words */
        MASK_SECRETS_MAX = 1024,
};

/* Remembers a literal one, copied. Shorter ones and those beyond the bound are passed over. */
void mask_add(const char *secret);

/* Replaces all that is known by "***", in place: the text never grows. */
void mask_text(char *text);

/* Whether a variable or an option of this name holds a secret, judging by its words: API_KEY,
 * github-token, DB_PASSWORD. */
bool mask_name_is_secret(const char *name);

/* Whether a value looks like one by itself. */
bool mask_value_is_secret(const char *value);
