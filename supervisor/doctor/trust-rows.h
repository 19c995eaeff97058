/* Rows about who decides on calls of tools: for each profile that has rules. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/doctor/report.h"

/* config: complete. */
void doctor_add_trust(struct doctor *d, const struct config *config);
