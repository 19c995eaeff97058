/*
 * Questions of a principal that have ended. An answer that its client sends afterwards counts for nothing; who asked gets it, for the
 * journal.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "rpc/client-request.h"
#include "supervisor/mcp/state.h"

enum { LATE_ASKS_MAX = 16 /* of a principal; a new one replaces the oldest */ };

/* The name of a request in a result for a modern client: "ask-12". */
enum { ASK_NAME_SIZE = 32 };
void ask_name(int64_t id, char ret[ASK_NAME_SIZE]);

/* The ask with this id has ended. Does nothing unless it has late(). */
void late_asks_keep(struct late_asks *late, int64_t id, const struct client_ask *ask);
/* A response of a legacy client to an unknown request, and an answer of a modern one. Each is reported once. Return whether it was
 * of an ask that has ended. */
bool late_asks_response(struct late_asks *late, yyjson_val *id);
bool late_asks_answer(struct late_asks *late, yyjson_val *name);
/* All answers of a request whose call is not known any more. */
void late_asks_answers(struct late_asks *late, yyjson_val *responses);
void late_asks_done(struct late_asks *late);
