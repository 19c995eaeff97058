/* The journal of each profile, and its last head. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/doctor/report.h"

/* One row for each profile that has one. The signature is not checked: 'cloister journal verify' does that. */
void doctor_check_journal(struct doctor *d, const struct config *config);
