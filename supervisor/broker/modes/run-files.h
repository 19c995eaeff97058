/*
 * The files of `cloister run --in`, put into /workspace before the code runs, and those of --out: read from the sandbox and sent to
 * the process that writes them (supervisor/cli/sessions/receiver.h).
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "base/error.h"
#include "supervisor/session/cell/cell.h"

struct run_in;
struct run_out;
struct session;

/* Reads the stream in fd (borrowed) and has the session's worker write its files. done is called
 * once, never from inside this function; error is NULL if all of them were written. */
int run_in_start(struct run_in **ret, struct session *session, int fd,
                 void (*done)(void *data, const struct error *error), void *data,
                 struct error *err);
/* Call after sessions_free(). */
struct run_in *run_in_free(struct run_in *in);

/* done is called once, from the event loop, when every file is written; error is NULL, or names in
 * one line a file that was not written. fd is borrowed. hidden: files with a leading dot in their path
 * are sent too. */
int run_out_new(struct run_out **ret, struct event_base *base, int fd, bool hidden,
                void (*done)(void *data, const struct error *error), void *data, struct error *err);
/* Call after sessions_free(). */
struct run_out *run_out_free(struct run_out *out);

/* Sends a display as a file display-INDEX with the extension of its type. */
void run_out_display(struct run_out *out, const struct cell_display *display, size_t index);

/* Sends all files below /workspace/out. Returns -ENOENT if the sandbox has ended, and its files are
 * lost; done() follows in any case. */
int run_out_collect(struct run_out *out, struct session *session);
