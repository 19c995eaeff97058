/*
 * The standard input of `cloister run`, as the broker sees it: a socket to the process that reads it
 * (supervisor/cli/run/feeder.h). One request is open at a time, and one piece is kept at most.
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>

#include "base/error.h"

struct run_stdin;

/* give(data, bytes, n) answers each run_stdin_read(), also from inside of it; n is 0 at the end. fd is
 * borrowed. */
int run_stdin_new(struct run_stdin **ret, struct event_base *base, int fd,
                  void (*give)(void *data, const char *bytes, size_t n), void *data,
                  struct error *err);
struct run_stdin *run_stdin_free(struct run_stdin *in);

/* Asks for at most n bytes, of which there is at least one before the end. */
void run_stdin_read(struct run_stdin *in, size_t n);
/* They are not wanted any more: what comes is for the next request. */
void run_stdin_drop(struct run_stdin *in);
