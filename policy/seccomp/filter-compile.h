/* Compiles a table with libseccomp. Used at run time and by filter-embed, at build time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/seccomp/entries.h"

/* Negative for a name that libseccomp does not know, or that is not this architecture's. */
int filter_native_number(const char *name);
uint32_t filter_native_arch(void);

/* Returns an array of struct sock_filter, to be freed by the caller and not yet checked against the
 * table. */
int filter_program(const struct filter_entries *entries, char **ret, size_t *ret_size,
                   struct error *err);

/* Compiles for another architecture (SCMP_ARCH_…), from entries with this machine's numbers. Calls that
 * libseccomp does not know by name are left out. For tests. */
int filter_program_for(uint32_t arch, const struct filter_entries *entries, char **ret,
                       size_t *ret_size, struct error *err);
