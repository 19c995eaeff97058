/*
 * Names of sessions. They need no escaping in JSON, URIs and logs.
 *
 * A server with several principals (users of the HTTP server) keeps their sessions apart by keys:
 * "PRINCIPAL:NAME". Where there is one principal without a name, a key is the name alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_NAME_MAX = 64, SESSION_KEY_MAX = 2 * SESSION_NAME_MAX + 1 };

/* "." and ".." would be resolved in a URI, "-" and "--help" are options of commands. */
#define SESSION_NAME_RULE                                                                          \
        "1 to 64 of the characters A-Z a-z 0-9 _ . -, the first a letter, a digit or _"

/* Whether name matches [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}. */
bool session_name_valid(const char *name, size_t n);
/* Whether it is such a name, or two with a colon between. */
bool session_key_valid(const char *key, size_t n);

/* principal: "" or a valid name, as name. */
void session_key_make(const char *principal, const char *name, char ret[SESSION_KEY_MAX + 1]);
/* The name in a key. */
const char *session_key_name(const char *key);
/* Whether two keys are of the same principal. */
bool session_key_is_beside(const char *key, const char *other);
/* Whether the key is of this principal. */
bool session_key_is_of(const char *key, const char *principal);
