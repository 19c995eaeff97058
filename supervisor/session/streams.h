/* Standard output and error of a session: two pipes, read into the running cell or kept for the
 * next one. */
#pragma once

#include "base/error.h"
#include "supervisor/session/session-internal.h"

/* Takes ownership of both descriptors in any case. */
int streams_open(struct session *session, int out, int err_fd, struct error *err);
void streams_close(struct session *session);

/* Reads what is in the pipes now, at most their capacity, so that a writer that goes on cannot
 * block the loop. */
void streams_drain(struct session *session);

/* Puts the output since the last cell, with a mark, before the output of this one. */
void streams_begin(struct session *session, struct cell *cell);
