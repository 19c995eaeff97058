/* Searches the tools of a catalogue in the background (rpc/background.h): hub_search() of hub.h. */
#pragma once

#include <event2/event.h>
#include <stddef.h>

#include "supervisor/hub/catalogue.h"

struct hub_search;

/* The text is borrowed. The rest is as in hub_search(). */
int search_start(struct event_base *base, struct catalogue_text *catalogue, const char *query,
                 size_t n, size_t limit, void (*fn)(void *data, const char *found, size_t length),
                 void *data, void **ret);
void search_cancel(struct hub_search *search);
