/* "ask" of a profile: who decides about calls that a rule does not decide (docs/questions.md). */
#pragma once

#include "policy/config/reader.h"

/* The function of the key "by" (codes.def). */
config_code_fn config_check_ask_by;

enum config_ask_by { CONFIG_ASK_CLIENT = 1, CONFIG_ASK_TERMINAL = 2 };

/* Returns bits of enum config_ask_by; never 0. */
unsigned config_ask_by(const struct config_ask *ask);
