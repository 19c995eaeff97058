/* The names that a rule is for: "server.tool", in which * matches any characters. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { SELECTOR_MAX = 256 };

/* Checks the text of one. The error is a clause after its name. Returns 0 or -EINVAL. */
int selector_check(const char *text, size_t n, struct error *err);

/* In a selector, * matches any bytes. If the name is a selector too: true means that the first one matches all names that
 * the second one matches. */
bool selector_matches(const char *selector, const char *name);
/* Whether it can match a tool of this server. */
bool selector_can_match_server(const char *selector, const char *server);
/* Whether all of its matches begin with "server.". */
bool selector_names_server(const char *selector, const char *server);
