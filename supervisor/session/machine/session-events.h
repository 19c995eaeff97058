/* The events of a session and its cells (supervisor/service/event.h). */
#pragma once

#include <stddef.h>

struct cell;
struct session;

/* Before the cell is sent; its payload still has the code. */
void session_tell_cell_begin(const struct session *session, const struct cell *cell);
/* A cell that has begun has ended: also one of which no more is known. */
void session_tell_cell_end(const struct session *session, const struct cell *cell);

/* It has got its sandbox; it loses it. reason: one word. */
void session_tell_start(const struct session *session);
void session_tell_end(const struct session *session, const struct cell *cell, const char *reason,
                      const char *why);
