/* The tables of policy/seccomp/rules.h as BPF programs, compiled with libseccomp at build time or at
 * run time. */
#pragma once

#include "base/error.h"
#include "policy/seccomp/rules.h"

/* Returns a sealed memfd with the program of this kind, an array of struct sock_filter, or negative
 * errno: -EIO when libseccomp compiled a program that does not do what the table says. */
int filter_compile(enum filter_kind kind, struct error *err);

/* The filters that the build compiled and checked (filter-embed.c); none in a cross build. */
struct filter_ready {
        enum filter_kind kind;
        size_t n;
        const struct sock_filter *program;
        uint64_t fingerprint; /* filter_fingerprint() at build time */
};

extern const struct filter_ready filters_ready[];
extern const size_t filters_ready_count;

/* Uses a program of the build if its fingerprint is right. NULL: it is compiled now. For tests. */
int filter_seal(enum filter_kind kind, const struct filter_ready *ready, struct error *err);
