/*
 * The answer of a call, made from the outcome of its cell: at once, or in the background (rpc/background.h) if it is
 * large. The call stays in its list until then.
 */
#pragma once

#include "base/buffer.h"
#include "rpc/background.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/session/cell/cell.h"

struct mcp_call;

/* The first member of what an answer is made of. */
struct mcp_answer {
        struct background_job job;
        struct mcp_call *call;
        struct cell_outcome outcome;
        struct buffer result;
        int r; /* of what made the result */
};

/*
 * Takes the outcome. kind: run() sets result and r; done() gets the answer when it is made, answers the call and frees it
 * by mcp_answer_send(), and frees the answer; free() calls mcp_answer_done().
 */
void mcp_answer_start(struct mcp_answer *answer, const struct background_kind *kind,
                      struct mcp_call *call, struct cell_outcome *outcome);
/* Answers the request. */
void mcp_answer_send(struct mcp_answer *answer);
void mcp_answer_done(struct mcp_answer *answer);
/* Answers run_python that the call was not made. */
void mcp_answer_refusal(struct reply *reply, const char *type, const char *message,
                        const char *session);
