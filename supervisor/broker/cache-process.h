/* The process that writes the cache of tools (supervisor/hub/cache/cache.h), forked by the broker before
 * it reads untrusted bytes. It has the broker's id and filter, and nothing but the cache. */
#pragma once

#include "base/error.h"

/* Needs CAP_SYS_ADMIN. Afterwards /state is read-only for the caller. Returns the socket, or negative
 * errno: there is no cache then. */
int cache_process_start(int filter_fd, struct error *err);
