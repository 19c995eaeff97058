/* The lines of a file of the journal, in their order. A line without its newline is not a line yet: it may be written still. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "rpc/journal-messages.h"

struct journal_lines {
        int fd;       /* borrowed */
        off_t offset; /* of the next line */
        off_t read;   /* of the next byte that is read */
        size_t start, length;
        char bytes[2 * JOURNAL_RECORD_MAX];
};

void journal_lines_init(struct journal_lines *lines, int fd);
/* The next line with its newline, valid until the next call. Returns 1, 0: there is none, -EMSGSIZE: it is longer than
 * JOURNAL_RECORD_MAX, or another negative errno. */
int journal_lines_next(struct journal_lines *lines, const char **ret, size_t *n, struct error *err);
/* The last whole line of a file, in a buffer of this module, valid until the next call. *end: of the line; behind it is what is
 * torn. Returns 1, 0: there is none, or negative errno. */
int journal_lines_last(int fd, const char **ret, size_t *n, off_t *end, struct error *err);
/* Bytes behind the last whole line, after journal_lines_next() has returned 0. */
size_t journal_lines_torn(const struct journal_lines *lines);
