/*
 * Lines from an inherited descriptor (standard input). It is read only when read() cannot block, so
 * that its flags need not change. Files and devices that do not support poll() are read once per
 * turn of the loop.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "base/error.h"
#include "rpc/lines.h"
#include "rpc/memory-reservation.h"

struct reader_owner {
        void *data;
        void (*line)(void *data, const char *line, size_t n);
        /* A line above RESERVATION_MIN bytes, which was parsed in the background; nothing is read
         * meanwhile, so that it needs no reservation. NULL: long lines are as others. */
        void (*parsed)(void *data, struct large_line *line);
        void (*too_long)(void *data, size_t most);
        void (*ended)(void *data); /* end of file, or an error */
};

struct reader {
        int fd; /* borrowed */
        bool polls, paused, ended;
        struct reader_owner owner;
        struct event_base *base;
        struct event *readable;
        struct lines lines;
        struct large_line *long_line;
};

int reader_open(struct reader *source, struct event_base *base, int fd, size_t line_max,
                const struct reader_owner *owner, struct error *err);
void reader_close(struct reader *source);

/* While paused, nothing is read or passed on. */
void reader_pause(struct reader *source, bool paused);
