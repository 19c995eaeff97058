/* The step of a call of a cell that has a plan (plans/plan.h). */
#pragma once

#include "supervisor/trust/trust.h"

/*
 * In the copy of the session, where the plan is made: a call that is allowed and reads is sent; another one becomes a row, and is
 * answered by a blank result. In the session: a call that is in the plan is sent; a read gets the result that the plan has, or is sent;
 * any other call asks unless it is denied, also if the rules allow it, and the question says what is different.
 */
trust_step trust_plan;
