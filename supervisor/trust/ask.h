/* The step of a call about which a rule asks: a grant, or a question to a person (asking.h). */
#pragma once

#include "supervisor/trust/trust.h"

trust_step trust_ask;

/* The rules have changed: decides calls that wait for a person, if no rule asks about them any more. */
void trust_ask_recheck(struct session *session);
