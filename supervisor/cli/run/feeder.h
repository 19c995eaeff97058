/*
 * The process that reads standard input for `cloister run`.
 *
 * The broker leads its own session, where the kernel's job control does not hold: from a terminal
 * it could read what is typed for the shell, while the run is in the background or stopped. The command
 * line therefore forks this process before it becomes the monitor. It stays in the process group, so that
 * the kernel stops it there, and has standard input, one end of a socket and no capabilities. It reads
 * only after a request, and ends with the socket.
 *
 * A request is a number of bytes (uint32_t). The answer is a length (uint32_t) and as many bytes; 0 at
 * the end of the input.
 */
#pragma once

#include "base/error.h"

enum feeder_input { FEEDER_NONE, FEEDER_PIPE, FEEDER_TERMINAL };

/* Returns the kind of standard input. NONE: it is closed, or /dev/null. */
enum feeder_input feeder_kind(void);

/* Starts the process, which is not a child of the caller. Returns the broker's end of the socket. */
int feeder_start(struct error *err);

/* The process itself. Returns at the end of the socket. Closes neither descriptor. */
void feeder_serve(int socket, int input);
