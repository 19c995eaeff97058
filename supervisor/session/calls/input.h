/*
 * The standard input of the code of `cloister run`: READ in, RETURN out.
 *
 * Nothing is read before the code reads. A session has at most one READ at a time, of at most
 * FRAME_READ_MAX bytes, and only a cell that has a standard input may send it: everything else is a
 * violation. Bytes that were read for a READ that the code has given up answer the next READ.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/channel/frame-body.h"

struct cell;
struct session;

/* Where the input of a cell comes from; data is the cell's. */
struct cell_input {
        /* Requests at most n bytes: cell_give_input() answers, also from inside. */
        void (*read)(void *data, size_t n);
        /* Cancels that request. */
        void (*drop)(void *data);
};

struct session_input {
        uint64_t cell;   /* whose READ waits for its answer; 0: none */
        uint64_t number; /* of the READ */
};

/* Answers the READ. n is 0 at the end of the input. */
void cell_give_input(struct cell *cell, const char *bytes, size_t n);

/* Handler of READ frames, and of a DROP that is of no call. */
int input_on_read(struct session *session, const struct frame_header *header,
                  struct frame_body *body, struct error *err);
int input_on_drop(struct session *session, uint64_t number);
