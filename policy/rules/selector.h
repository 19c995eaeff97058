/* The names that a rule is for: "server.tool", in which * matches any characters. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { SELECTOR_MAX = 256 };

/* Checks the text of one. The error is a clause after its name. Returns 0 or -EINVAL. */
int selector_check(const char *text, size_t n, struct error *err);

bool selector_matches(const char *selector, const char *name);
/* Whether each name that b matches is one that a matches. It may say no where that is so, if both have a *. */
bool selector_covers(const char *a, const char *b);
/* Whether it can match a tool of this server. */
bool selector_can_match_server(const char *selector, const char *server);
/* Whether all of its matches begin with "server.". */
bool selector_names_server(const char *selector, const char *server);
