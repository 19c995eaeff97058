/* What this kernel has of the layers. */
#pragma once

#include "supervisor/doctor/report.h"

void doctor_check_kernel(struct doctor *d);
