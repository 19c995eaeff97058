/*
 * Tells what of each layer works on this machine, by doing it in a child: effective, degraded or
 * missing, with the reason and what to change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Prints the table, or JSON. Returns the exit status: 0 when Cloister can run here (degraded
 * included), 1 when not. */
int doctor_main(bool json, const char *const *configs, size_t n_configs);
