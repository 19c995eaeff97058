/* Checks the layers that depend on this machine: cgroups, ids, images, programs. */
#pragma once

#include "supervisor/doctor/report.h"

void doctor_check_host(struct doctor *d, const char *const *configs, size_t n_configs);

/* Tries them, as far as their images exist. */
void doctor_check_profiles(struct doctor *d, const char *const *configs, size_t n_configs);
