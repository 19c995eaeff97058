/*
 * Evaluates a classic BPF program as the kernel does for seccomp
 * (Documentation/networking/filter.rst; net/core/filter.c, bpf_check_classic; kernel/seccomp.c,
 * seccomp_check_filter): 32-bit loads of struct seccomp_data at absolute offsets, scratch memory,
 * arithmetic, forward jumps, return.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* Returns 0 and what the program returns, -EINVAL for a program that the kernel would refuse. */
int bpf_eval(const struct sock_filter *program, size_t n, const struct seccomp_data *data,
             uint32_t *ret);
