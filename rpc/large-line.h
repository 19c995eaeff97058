/*
 * A long line with a JSON-RPC message, which is parsed in the background (rpc/background.h).
 *
 * The result of a tool is moved into a memfd on the way, as a worker gets it (rpc/memfd-frame.h), so
 * that the loop does not copy it.
 */
#pragma once

#include "rpc/background.h"
#include "rpc/jsonrpc.h"

struct large_line {
        struct background_job job; /* first */
        struct buffer text;
        bool wants_memfd;

        /* The result of jsonrpc_parse(). The message has no text if there is a memfd. */
        int r;
        struct error err;
        struct jsonrpc_message message;
        bool has_id; /* of a line that is not a message: jsonrpc_guess_id() */
        int64_t id;
        int memfd; /* -1: none */
        size_t memfd_length;

        void (*done)(void *data, struct large_line *line);
        void *data;
};

/* Takes the text. done() may take the message and the memfd (set to -1); the rest is freed after it.
 * Returns NULL when out of memory, and the text is freed. */
struct large_line *large_line_start(struct event_base *base, struct buffer *text, bool wants_memfd,
                                    void (*done)(void *data, struct large_line *line), void *data);
/* done() is not called. NULL is allowed. Returns NULL. */
struct large_line *large_line_cancel(struct large_line *line);
