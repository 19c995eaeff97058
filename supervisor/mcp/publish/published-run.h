/*
 * A call of something published, from its first run to its answer (published-call.h).
 *
 * Every answer is checked against its question here (rpc/client-request.h), and written anew, before code gets it.
 * The requests of a modern client are independent: its answers may come with the state of a call, which has the
 * questions, or without. Those that have no question yet wait until the code asks.
 */
#pragma once

#include "policy/config/config.h"
#include "policy/image.h"
#include "rpc/client-request.h"
#include "supervisor/mcp/publish/published-result.h"
#include "supervisor/mcp/publish/request-state.h"
#include "supervisor/mcp/reply.h"
#include "supervisor/mcp/request.h"

struct mcp_call;

enum {
        PUBLISHED_REQUESTS_MAX = 16,     /* questions at once */
        PUBLISHED_CALL_MS = 3600 * 1000, /* of one call, with the answers; of legacy clients */
        PUBLISHED_KEY_MAX = 64,
};

/* Buffers hold JSON. */
struct published_run {
        struct mcp_call *call;
        struct config *config;                /* a reference */
        const struct config_published *entry; /* in it */
        struct published_view view;
        const char *kind;              /* a literal */
        char profile[IMAGE_NAME_SIZE]; /* of the client, or "" */
        bool modern;
        struct request_call request; /* as its state is kept */
        struct buffer capabilities;  /* of the client; an object; empty: none */
        struct buffer complete;      /* {"name", "value", "context"}; empty: not asked for */
        yyjson_doc *
                early; /* an object: what a modern client has answered before the question, or NULL */
        uint64_t until_us;
        /* The questions to a legacy client. */
        struct published_question {
                struct client_ask ask; /* first */
                struct mcp_call *call;
                bool open;
                char key[PUBLISHED_KEY_MAX + 1];
        } asked[PUBLISHED_REQUESTS_MAX];
        size_t n_questions, n_open;
};

/* Whether the client may be asked: a modern one only where the specification lets a result ask ("Multi Round-Trip
 * Requests", "Supported Requests"). */
static inline bool published_may_ask(const struct published_run *run)
{
        return !run->modern || run->view.what != RESULT_OF_COMPLETION;
}

/* NULL: out of memory. */
struct published_run *published_run_new(const struct mcp_request *request,
                                        const struct config_published *entry,
                                        enum published_what what);
/* Withdraws what the client is being asked. NULL is allowed. Returns NULL. */
struct published_run *published_run_free(struct published_run *run);
void published_run_withdraw(struct published_run *run);
/* Starts a run of the code. */
int published_run_start(struct mcp_call *call, struct error *err);
/* Answers with the outcome, and frees the call. */
void published_run_answer(struct mcp_call *call, struct cell_outcome *outcome);
/* The call ends without a result. */
void published_fail(struct mcp_call *call, const char *why);
/* Answers a request that has no call yet without a result. A tool's failure is for the model, as its result. */
void published_refuse(enum published_what what, struct reply *reply, const char *why);

/* An answer that fits its question is added to the run's: without it, there is nothing that code
 * gets. Returns 0, or negative errno and why not. */
int published_answer_take(struct published_run *run, const char *key,
                          const struct client_request *question, yyjson_val *answer,
                          struct error *err);
/* requestState and inputResponses of a modern request, before the first run. Returns 0, or negative errno and why not. */
int published_answers_read(const struct mcp_request *request, struct published_run *run,
                           struct error *err);
/* Of the questions of a modern call, takes the answers that came before them, and with them the questions. As
 * above. */
int published_answers_early(struct published_run *run, struct error *err);
/* Keeps the call, with what it asks; appends the name of its state as a JSON string. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int published_answers_keep(struct published_run *run, struct request_states *states,
                           struct buffer *to);
