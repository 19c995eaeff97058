/*
 * Notifications about a running call: progress if the request has a token, and the output of the
 * code and the log messages of the servers that it calls, if the client asked for log messages.
 *
 * Progress is sent at least every LIVE_HEARTBEAT_MS and, after new output, at most every
 * LIVE_PROGRESS_MS; output at most every LIVE_OUTPUT_MS, LIVE_OUTPUT_MAX bytes of a stream each
 * time. Output beyond that is counted and left out; it is part of the result. Messages of servers go
 * with the output, LIVE_LOGS_MAX bytes each time.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "base/buffer.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"
#include "supervisor/service/node.h"
#include "supervisor/session/cell/cell.h"

enum {
        LIVE_HEARTBEAT_MS = 5000,
        LIVE_PROGRESS_MS = 1000,
        LIVE_OUTPUT_MS = 100,
        LIVE_OUTPUT_MAX = 8 * 1024,
        LIVE_LINE_MAX = 200,     /* bytes of the last line, in a message */
        LIVE_LOG_MAX = 8 * 1024, /* bytes of one message of a server */
        LIVE_LOGS_MAX = 32 * 1024,
        LIVE_REPORTS_MAX = 1000, /* of published code in one call: more are left out */
};

struct live {
        struct mcp_sink *sink;          /* a reference, while there is a timer */
        const struct cell *cell;        /* borrowed; NULL: the call waits for the client */
        const char *session;            /* borrowed */
        yyjson_doc *token;              /* for progress, or NULL */
        char task[NODE_MINTED_MAX + 1]; /* id of a legacy client's task, or "" */
        bool logs;                      /* the client asked for the output */
        enum mcp_log_level level;       /* and for messages of servers from this level on */
        bool published;                 /* the code reports by itself: its output is not sent */
        bool told;                      /* it has reported progress: there are no heartbeats then */
        double progress;                /* the last value that was sent; below 0: none was */
        unsigned reports;               /* of the code, that were sent */
        struct event *timer;
        uint64_t started_us, progress_us, output_us; /* of the last notification of each kind */
        bool new_output;                             /* since the last progress */
        char line[LIVE_LINE_MAX + 1];                /* incomplete */
        char last[LIVE_LINE_MAX + 1];                /* the last complete one */
        const char *person;                          /* that the code waits for a person, or NULL */
        char note[LIVE_LINE_MAX + 1];                /* what a server said last of its progress */
        char step[LIVE_LINE_MAX + 1];                /* what the cell waits for, or "" */
        uint64_t step_cell;                          /* number of the cell then; 0: not begun */
        uint64_t step_us;                            /* of the last log message about it */
        bool new_step;                               /* since then; without a token only */
        struct buffer pending[CELL_STREAMS];
        uint64_t skipped[CELL_STREAMS]; /* bytes that were left out */
        struct buffer messages;         /* of servers: params, each in a line */
        unsigned messages_skipped;
};

/* Starts the notifications that the request asked for, if any. Set live->published before. Returns 0 or -ENOMEM. Call
 * live_done() in any case. */
int live_start(struct live *live, const struct mcp_request *request, const struct reply *reply,
               const struct cell *cell, const char *session);
/* PROGRESS and LOG of published code (rpc/frame.h): objects that were not checked. */
void live_report_progress(struct live *live, yyjson_val *told);
void live_report_log(struct live *live, yyjson_val *told);
void live_output(struct live *live, enum cell_stream stream, const char *bytes, size_t n);
/* Progress of a call, as its server reports it, and a log message of a server (params, not checked). */
void live_progress(struct live *live, const char *server, const struct cell_progress *progress);
void live_log(struct live *live, const char *server, yyjson_val *params);
/* A step of the work for the call, as for struct cell_client_calls. It is part of the progress; a client without a token for it
 * gets log messages of the level info, at most every LIVE_PROGRESS_MS. */
void live_step(struct live *live, const char *what, const char *text);
/* The code waits for a person, as this text says, which the owner keeps until the next call; NULL: it does not any more. */
void live_person(struct live *live, const char *text);
/* The cell has ended: sends the rest of the output, before the answer. */
void live_finish(struct live *live);
/* Stops the notifications. */
void live_done(struct live *live);
