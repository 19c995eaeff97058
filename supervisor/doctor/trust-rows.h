/* Rows of each profile: its rules and who answers their questions, the names of its secrets, and the hosts whose requests are read. Rules
 * are listed if a profile has some. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/doctor/report.h"

/* config: complete. */
void doctor_add_trust(struct doctor *d, const struct config *config);
