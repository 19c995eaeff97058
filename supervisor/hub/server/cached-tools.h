/*
 * The tools of a server in the cache, for the next process of ours.
 *
 * Many servers list other tools when the client can be asked for something. So the capabilities of the
 * client are part of the key under which the list is kept.
 */
#pragma once

#include "supervisor/hub/server/state.h"

void hub_server_save(struct hub_server *s);
void hub_server_take_cached(struct hub_server *s);
/* Clients can be asked for more than before: the list for these may be in the cache. */
void hub_server_client_changed(struct hub_server *s);
