/* What channel.c and channel-out.c share. */
#pragma once

#include "supervisor/session/channel.h"

void channel_on_writable(evutil_socket_t fd, short what, void *data);
/* Bytes that the worker has not read, as far as that is known; the second finds out. */
size_t channel_unread(const struct channel *c);
void channel_reap(struct channel *c);
void channel_drop_out(struct channel *c); /* all that is queued */
