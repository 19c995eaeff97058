/* The steps of a call, in their order. */
#include "supervisor/trust/steps.h"

#include <stddef.h>

#include "supervisor/trust/ask.h"
#include "supervisor/trust/journal-step.h"
#include "supervisor/trust/plan-step.h"

trust_step *const trust_steps[] = {
        trust_check_form, trust_apply_rules, trust_plan, trust_ask,
        trust_count,      trust_journal,     NULL,
};
