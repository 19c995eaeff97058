/*
 * The broker's log, where it goes to a regular file: a pipe, from which the monitor appends to the file
 * (base/log.h). So the broker, which parses hostile input, can neither change what is written nor
 * fill the disk. Other logs (a terminal, a pipe) are bounded by who reads them; the broker has their
 * descriptor.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"

struct log_relay;

/* *theirs: the broker's end, which the caller closes. If the log is not a regular file, *ret is NULL and
 * *theirs -1. */
int log_relay_new(struct log_relay **ret, struct event_base *base, int *theirs, struct error *err);
/* Appends what is left. NULL is allowed. Returns NULL. */
struct log_relay *log_relay_free(struct log_relay *relay);
