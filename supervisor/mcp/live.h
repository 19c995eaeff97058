/*
 * What a client hears of a call that is under way: progress, where it gave a token, and what the
 * code prints, where it asked for log messages.
 *
 * Progress comes at least every LIVE_HEARTBEAT_MS and, after new output, at most every
 * LIVE_PROGRESS_MS; output at most every LIVE_OUTPUT_MS, LIVE_OUTPUT_MAX bytes of a stream each
 * time. What is more is counted and left out: the result has it.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/buffer.h"
#include "supervisor/mcp/request.h"
#include "supervisor/session/cell.h"

struct mcp_server;

enum {
        LIVE_HEARTBEAT_MS = 5000,
        LIVE_PROGRESS_MS = 1000,
        LIVE_OUTPUT_MS = 100,
        LIVE_OUTPUT_MAX = 8 * 1024,
        LIVE_LINE_MAX = 200, /* bytes of the last line, in a message */
};

struct live {
        struct mcp_server *server;
        const struct cell *cell; /* borrowed */
        const char *session;     /* borrowed */
        yyjson_doc *token;       /* of its progress, or NULL */
        bool logs;               /* the client wants to read what is printed */
        struct event *timer;
        uint64_t started_us, progress_us, output_us;           /* of the last notification each */
        bool news;                                             /* since the last progress */
        char line[LIVE_LINE_MAX + 1], last[LIVE_LINE_MAX + 1]; /* begun, and the last whole one */
        struct buffer pending[CELL_STREAMS];
        uint64_t skipped[CELL_STREAMS]; /* bytes that did not fit */
};

/* Starts for a call whose request asked for something; else it stays silent. Returns 0 or -ENOMEM.
 * live_done() is due in any case. */
int live_start(struct live *live, struct mcp_server *server, const struct mcp_request *request,
               const struct cell *cell, const char *session);
void live_output(struct live *live, enum cell_stream stream, const char *bytes, size_t n);
/* The cell has ended: what is printed and not yet told goes out before the answer. */
void live_finish(struct live *live);
/* Nothing more. */
void live_done(struct live *live);
