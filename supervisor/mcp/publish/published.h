/*
 * Entries that the config publishes (policy/config/config.h), as clients see it: lists, names, and whether an entry
 * is offered. Code shows and hides entries for its client's principal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json-out.h"
#include "policy/config/config.h"
#include "supervisor/mcp/resources/resource-uri.h"

struct mcp_principal;
struct mcp_server;

/* Lists that clients are notified of. */
enum published_list { LIST_TOOLS, LIST_PROMPTS, LIST_RESOURCES, PUBLISHED_LISTS };

/* Of the server. */
struct published_lists {
        uint64_t generation;               /* of the config's entries */
        uint64_t serials[PUBLISHED_LISTS]; /* grow when a list changes for all */
};

/* Of a principal. */
struct published_choice {
        uint64_t generation;
        uint64_t serials[PUBLISHED_LISTS]; /* grow when a list changes for it */
        unsigned char changed
                [CONFIG_PUBLISHED_MAX]; /* by code: of each entry, 0: not, 1: shown, 2: hidden */
};

/* The entry that is offered by this name, which may be NULL; or NULL. */
const struct config_published *published_find(const struct mcp_principal *principal,
                                              enum config_published_kind kind, const char *name);

/*
 * The resource or template that a URI names, or NULL. variables: an empty buffer, which gets the
 * template's variables as a JSON object, and {} for a resource; or NULL.
 */
const struct config_published *published_find_uri(const struct mcp_principal *principal,
                                                  const char *uri, size_t n,
                                                  struct buffer *variables);
/* Finds the entry of a URI as a name to subscribe to. Returns whether it exists. */
bool published_take_uri(const struct mcp_principal *principal, const char *uri, size_t n,
                        struct resource_uri *ret);

/* Puts the entries that are offered into a list. */
void published_put(const struct mcp_principal *principal, enum config_published_kind kind,
                   struct json_out *out);

/* Grows when a list changes for the principal by the config or by code. */
uint64_t published_serial(const struct mcp_principal *principal, enum published_list list);

/* Code shows or hides what has this name; subscriptions_lists_changed() then notifies. */
void published_show(struct mcp_principal *principal, const char *name, bool shown);
/* Another config is in effect: the serials of lists that differ grow. */
void published_reload(struct mcp_server *server, const struct config *before);
