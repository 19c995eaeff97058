/* The step of a call about which a rule asks: a grant, or a question to a person (asking.h). */
#pragma once

#include "supervisor/trust/trust.h"

trust_step trust_ask;

/* Digest of the rule and of the definition of the tool: a yes holds for these. */
uint64_t trust_definition(const struct trust_call *trust);

/* The rules have changed: decides calls that wait for a person, if no rule asks about them any more. */
void trust_ask_recheck(struct session *session);
