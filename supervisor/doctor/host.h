/* What this machine has of the layers: cgroups, ids, images, programs. */
#pragma once

#include "supervisor/doctor/report.h"

void doctor_check_host(struct doctor *d, const char *const *configs, size_t n_configs);
