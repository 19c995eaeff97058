/* A QUERY of check_only: what the rules say of calls that are not made. */
#pragma once

#include "supervisor/session/machine/machine.h"

enum { DECISIONS_MAX = 1 /* calls of one QUERY: a decision may take some 10 ms */ };

/* Handler of {"what": "rules", "calls": [{"server", "tool", "arguments"?}]}; the answer has {"effects", "rule"?, "why"?} for each.
 * Nothing is counted, asked or sent. Returns 0 or negative errno. */
int calls_on_rules(struct session *session, uint64_t number, yyjson_val *root, struct error *err);
