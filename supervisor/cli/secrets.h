/*
 * What of a server's entry may be shown, or copied into another file, and what is a secret. When in
 * doubt it is one: a setting taken for a secret costs a line, a secret taken for a setting is out.
 */
#pragma once

#include <stdbool.h>

/* Nothing but ${VAR} and ${VAR:-…}. */
bool secret_is_reference(const char *value);

/* Whether a variable's value is a plain setting: a switch, a small number, one word of letters, a
 * path, an address without user, password and query. */
bool secret_is_plain(const char *name, const char *value);

/* Whether the argument `after` (or NULL) of a command line makes this one a secret, or it is one by
 * itself. *keep is how many bytes at its start are not: "--token=" of "--token=x". */
bool secret_in_argument(const char *after, const char *argument, unsigned *keep);

/* The same for an address: *keep and *rest are the bytes before and behind the secret. */
bool secret_in_url(const char *url, unsigned *keep, unsigned *rest);
