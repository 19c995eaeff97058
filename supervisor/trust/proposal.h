/*
 * The answer `always`: each call that it allows becomes a record of the journal, from which `cloister rules accept` writes a rule that
 * allows exactly this call (docs/questions.md). Cloister itself writes no rule.
 */
#pragma once

#include <stdbool.h>

#include "base/log-line.h"
#include "policy/config/types.h"
#include "supervisor/trust/questions/question-text.h"

enum {
        PROPOSALS_OF_ANSWER_MAX = 32,
        PROPOSAL_ARGUMENTS_MAX = 4 * 1024, /* bytes of JSON */
};

/* allowed: of each call of the question. A call for which there can be no rule is in the log only. */
void proposals_record(const struct config_profile *profile, const struct log_ids *ids,
                      const struct question_view *view, const bool *allowed);
