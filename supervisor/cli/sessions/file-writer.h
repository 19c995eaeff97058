/* Sends files to the process that writes them below a directory (receiver.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct file_writer {
        int fd; /* of the receiver; -1: none */
};

/* As receiver_start(). */
int file_writer_open(struct file_writer *ret, const char *directory, bool hidden,
                     struct error *err);
/* A file is begin, any number of pieces, and end; or abort, which leaves no file. */
int file_writer_begin(struct file_writer *writer, const char *path);
int file_writer_piece(struct file_writer *writer, const void *bytes, size_t n);
int file_writer_end(struct file_writer *writer);
int file_writer_abort(struct file_writer *writer);
/* A failed call: what the receiver says of it. All written: waits for it; *files: how many. Closes in any case. */
int file_writer_close(struct file_writer *writer, bool complete, uint32_t *files,
                      struct error *err);
