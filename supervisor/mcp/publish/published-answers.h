/*
 * Answers of clients to the questions of published code.
 *
 * Every answer is checked against its question here (rpc/client-request.h), and written anew, before code gets it.
 * The requests of a modern client are independent: its answers may come with the state of a call, which has the
 * questions, or without. Those that have no question yet wait until the code asks.
 */
#pragma once

#include "supervisor/mcp/publish/published-run.h"

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
