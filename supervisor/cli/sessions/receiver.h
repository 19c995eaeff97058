/*
 * The process that writes the files of `cloister run --out DIRECTORY`.
 *
 * The broker has the files and cannot write to the host. The command line therefore forks this
 * process before it becomes the monitor. The process holds the directory and one end of a socket
 * and no other descriptor, has no capabilities (root: CAP_DAC_OVERRIDE), and Landlock confines it
 * to the directory. The bytes from the socket are untrusted: paths are checked and resolved beneath
 * the directory, symbolic links are not followed, and an existing file is replaced by a rename. A name
 * with a leading dot ends the stream unless it is allowed: git, shells and editors read such files.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Opens the directory, whose last component is created if it is missing, and starts the process,
 * which is not a child of the caller. Returns the broker's end of the socket. */
int receiver_start(const char *directory, bool hidden, struct error *err);

/* The process itself: reads the socket until the end of the stream. Closes neither descriptor. */
void receiver_serve(int socket, int directory, bool hidden);
