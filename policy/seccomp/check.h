/* Checks compiled filters against their tables. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/seccomp/entries.h"

/*
 * Checks a compiled program against its table: every call number below FILTER_CHECK_CALLS and some
 * larger ones, the x32 numbers, other architectures; for each rule, arguments that match and
 * arguments that differ in any one bit; for each rule of the other tables, arguments that match it.
 * Returns 0, or -EIO with the first difference.
 */
enum { FILTER_CHECK_CALLS = 600 };

int filter_check(const struct filter_entries *entries, const struct sock_filter *program, size_t n,
                 uint32_t arch, struct error *err);

/*
 * A hash of everything that filter_check() depends on: program, table, numbers and architecture. If
 * a program passed the check and its fingerprint is the same elsewhere, it passes there too. The hash
 * detects accidental differences; it does not protect against a forged program.
 */
uint64_t filter_fingerprint(const struct filter_entries *entries, const struct sock_filter *program,
                            size_t n, uint32_t arch);

/*
 * Evaluates a classic BPF program as the kernel does for seccomp
 * (Documentation/networking/filter.rst; net/core/filter.c, bpf_check_classic; kernel/seccomp.c,
 * seccomp_check_filter): 32-bit loads of struct seccomp_data at absolute offsets, scratch memory,
 * arithmetic, forward jumps, return.
 */
/* Returns 0 and what the program returns, -EINVAL for a program that the kernel would refuse. */
int bpf_eval(const struct sock_filter *program, size_t n, const struct seccomp_data *data,
             uint32_t *ret);
