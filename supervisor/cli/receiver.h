/*
 * The process that writes the files of `cloister run --out DIRECTORY`.
 *
 * The broker, which has them, cannot write to the host. So before the command line becomes the
 * monitor it forks this one: it has the directory and one end of a socket and nothing else, no
 * capabilities to speak of, and Landlock down to the directory. What comes over the socket is
 * hostile: paths are checked and resolved beneath the directory, no symbolic link is followed, and
 * existing files are replaced whole, by a rename.
 */
#pragma once

#include "base/error.h"

/* Opens the directory, which is made when only its last part is missing, and starts the process, no
 * child of ours. Returns the broker's end of the socket. */
int receiver_start(const char *directory, struct error *err);

/* The process itself: serves the socket until the end of its stream. Neither is closed. */
void receiver_serve(int socket, int directory);
