/* What the code of a session prints: two pipes read into the current cell, or kept for the next
 * one. */
#pragma once

#include "base/error.h"
#include "supervisor/session/session-internal.h"

/* Takes both descriptors in any case. */
int streams_open(struct session *session, int out, int err_fd, struct error *err);
void streams_close(struct session *session);

/* Reads what is in the pipes now, at most what they can hold: a writer that goes on cannot keep us
 * here. */
void streams_drain(struct session *session);

/* What came between the cells becomes the beginning of this one, marked. */
void streams_begin(struct session *session, struct cell *cell);
