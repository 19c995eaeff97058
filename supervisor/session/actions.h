/*
 * The table of the actions of a session: one for each event in each state that handles it.
 *
 * Theory of operation
 *
 * Everything happens in the event loop: a cell is queued or cancelled, the monitor answers, a frame
 * arrives, the timer fires, the channel ends. Each of these is an event; the table in actions.c says
 * what a state does with it, and an event without an action is ignored. A cell's done() is never
 * called from inside a function that its owner called: session_push() and cell_cancel() post
 * EVENT_WAKE, which the loop handles later.
 *
 *     none ──wake──► creating ──started──► idle ──wake──► running ──result──► idle
 *     running ──timer, cancel──► interrupting ──timer (SESSION_GRACE_MS)──► killing. Meanwhile the worker is
 *         reminded: Python does not notice a signal that comes just before it waits in a system call
 *     idle ──timer──► freezing ──frozen──► frozen; the next cell or file request thaws it
 *     channel ends ──► closed: the monitor reports a dead worker within SESSION_CLOSED_MS; else the
 *         code has closed the channel, and the sandbox is killed
 *     the monitor reports the end ──► draining ──► none, within one event
 *     idle ──timer (SESSION_QUIET_MS)──► keeping ──the copy is made──► idle
 *     interrupting ──timer──► restoring, if there is a copy
 *     idle, running ──back──► restoring, to a checkpoint or by undo()
 *     running ──result──► keeping, if the cell asks for a checkpoint; the cell ends with that state
 *     running, interrupting ──back──► restoring, by a block that has failed; from waking it returns there
 *     the monitor reports the end of the worker ──► draining ──► waking ──restored──► keeping
 *
 * outcome.c decides how a cell ended.
 */
#pragma once

#include "supervisor/session/machine/machine.h"

extern const struct session_table session_table;

/* Drops all that belongs to the sandbox; the state is SESSION_NONE then. */
void session_forget_sandbox(struct session *session);
