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
#include <stddef.h>

#include "base/error.h"
#include "rpc/file-stream.h"

/* Opens the directory, whose last component is created if it is missing, and starts the process,
 * which is not a child of the caller. Returns the broker's end of the socket. */
int receiver_start(const char *directory, bool hidden, struct error *err);

/* The process itself: reads the socket until the end of the stream. Closes neither descriptor. */
void receiver_serve(int socket, int directory, bool hidden);

/* The other end: sends files to that process. */
struct file_writer {
        int fd; /* of the receiver; -1: none */
};

/* As receiver_start(). */
int file_writer_open(struct file_writer *ret, const char *directory, bool hidden,
                     struct error *err);
/* Sends a record. */
int file_writer_put(struct file_writer *writer, enum file_stream_type type, const void *payload,
                    size_t n);
/* Sends bytes of a file as DATA records, of any length. */
int file_writer_piece(struct file_writer *writer, const void *bytes, size_t n);
/* A failed call: what the receiver says of it. All written: waits for it. Closes in any case. */
int file_writer_close(struct file_writer *writer, bool complete, struct error *err);
