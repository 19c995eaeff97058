/*
 * Tells secrets from settings in a server's entry. In doubt a value is a secret: a setting treated
 * as a secret costs the user a line, a secret treated as a setting is leaked.
 */
#pragma once

#include <stdbool.h>

/* Whether the value is only ${VAR} or ${VAR:-…}. */
bool secret_is_reference(const char *value);

/* Whether a variable's value is a plain setting: a boolean, a small number, one word of letters, a
 * path, a URL without user, password and query. */
bool secret_is_plain(const char *name, const char *value);

/* Whether an argument is a secret, by itself or because of the argument before it (`after`, or
 * NULL). *keep is the length of the part before the secret: "--token=" of "--token=x". */
bool secret_in_argument(const char *after, const char *argument, unsigned *keep);

/* Whether a URL has a secret: *keep and *rest are the lengths before and after the secret. */
bool secret_in_url(const char *url, unsigned *keep, unsigned *rest);
