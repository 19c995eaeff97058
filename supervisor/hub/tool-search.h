/*
 * Searches the tools that a profile may use, in the background (rpc/background.h).
 */
#pragma once

#include <stddef.h>

struct config_profile;
struct hub;
struct hub_search;

/*
 * Calls fn once, unless the search is cancelled, with what tool_search() appends; NULL: there was no memory,
 * or the answer was too long. *ret is valid until then. If no thread can be started, fn is called before this returns. Returns 0
 * or -ENOMEM.
 */
int hub_search(struct hub *hub, const struct config_profile *profile, const char *query, size_t n,
               size_t limit, void (*fn)(void *data, const char *found, size_t length), void *data,
               void **ret);
void hub_search_cancel(struct hub_search *search);
