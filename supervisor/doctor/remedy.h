/* The command that makes Cloister run on this machine. */
#pragma once

#include "supervisor/doctor/system.h"

/* One command that lifts all blockers which are known, "" if there is none. */
void doctor_remedy(const struct doctor_system *system, char *ret, size_t size);
