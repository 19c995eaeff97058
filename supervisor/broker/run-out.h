/* The files of `cloister run --out`: read from the sandbox, given to the process that writes them
 * (supervisor/cli/receiver.h). */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/session/cell.h"

struct run_out;
struct session;

/* done is called once, from the event loop, when every file is written; trouble is NULL, or tells
 * in one line what was not. fd is borrowed. */
int run_out_new(struct run_out **ret, struct event_base *base, int fd,
                void (*done)(void *data, const struct error *trouble), void *data,
                struct error *err);
/* After the sessions were freed. */
struct run_out *run_out_free(struct run_out *out);

/* Gives out what was displayed, as display-INDEX with the extension of its type. */
void run_out_display(struct run_out *out, const struct cell_display *display, size_t index);

/* Gives out all that is below /workspace/out. Returns -ENOENT when the sandbox is gone, and its
 * files with it; done() follows in any case. */
int run_out_collect(struct run_out *out, struct session *session);
