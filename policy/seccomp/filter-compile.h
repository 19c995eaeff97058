/* The part of filter.h that is libseccomp's: also of the program that compiles the filters at build
 * time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/seccomp/rules.h"

/* Negative for a name that libseccomp does not know, or that is not this architecture's. */
int filter_native_number(const char *name);
uint32_t filter_native_arch(void);

/* An array of struct sock_filter, for free(); not yet held against the table. */
int filter_program(const struct filter_entries *entries, char **ret, size_t *ret_size,
                   struct error *err);
