/*
 * Reports for each layer of the sandbox whether it is effective, degraded or missing on this
 * machine, with the reason and the remedy. It finds out by trying in a child.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/doctor/report.h"

/* Prints the table, or JSON. Returns the exit status: 0 when Cloister can run here (degraded
 * included), 1 when not. */
int doctor_main(bool json, const char *const *configs, size_t n_configs);

/* Checks what depends on this machine: control groups, ids, images, programs. */
void doctor_check_host(struct doctor *d, const char *const *configs, size_t n_configs);
