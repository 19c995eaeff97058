/* The steps of a call, in their order. */
#pragma once

#include "supervisor/trust/journal-step.h"
#include "supervisor/trust/trust.h"

extern trust_step *const trust_steps[];
