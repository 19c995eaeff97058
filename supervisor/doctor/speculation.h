/* Rows about speculation: the state of a process from /proc/PID/status, and what its profile allows. */
#pragma once

#include "supervisor/doctor/attack-rows.h"

/* Adds the row of store bypass in a process, from the text of its status. Returns as attack_add(). */
int speculation_add_row(struct attack_rows *rows, const char *role, const char *status);

/* Of a profile whose sessions have "speculation": "shared": its open rows of the guest are known, and name the setting. Rows
 * of init stay open. */
void speculation_allow(struct attack_rows *rows);
