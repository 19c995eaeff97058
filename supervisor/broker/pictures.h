/*
 * The checks of pictures: the broker's end of cloister-pictures (rpc/picture-messages.h).
 *
 * The process is requested with the first picture. PICTURE_CHILDREN_MAX pictures are checked at a time; the next one is that of
 * the principal whose last one is the longest ago. A process that ends, does not answer or breaks the protocol is dropped: the
 * pictures that it had are refused, and another one is requested with the next picture, START_MS after it was at the earliest.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/session/machine/picture-provider.h"

struct pictures;

/* start: requests the process; pictures_started() follows. Returns 0 or negative errno. */
int pictures_new(struct pictures **ret, struct event_base *base, int (*start)(void *data),
                 void *data, struct error *err);
/* No check may wait. NULL is allowed. */
void pictures_free(struct pictures *pictures);

/* The process runs: its socket, which it owns from now on; or -1: it could not be started. */
void pictures_started(struct pictures *pictures, int socket);

struct picture_provider pictures_provider(struct pictures *pictures);
