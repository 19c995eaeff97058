/* Checks the layers that depend on the kernel. */
#pragma once

#include "supervisor/doctor/report.h"

void doctor_check_kernel(struct doctor *d);
