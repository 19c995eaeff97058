/* The other profiles of the config. */
#pragma once

#include "supervisor/doctor/report.h"

/* Tries them, as far as their images exist. */
void doctor_check_profiles(struct doctor *d, const char *const *configs, size_t n_configs);
