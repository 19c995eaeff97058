/* The tables of policy/seccomp/rules.h as BPF programs, compiled with libseccomp at build time or at
 * run time. */
#pragma once

#include "base/error.h"
#include "policy/seccomp/rules.h"

/* Returns a sealed memfd with the program of this kind, an array of struct sock_filter, or negative
 * errno: -EIO when libseccomp compiled a program that does not do what the table says. */
int filter_compile(enum filter_kind kind, struct error *err);

/* Uses a program of the build if its fingerprint is right. NULL: it is compiled now. For tests. */
struct filter_ready;
int filter_seal(enum filter_kind kind, const struct filter_ready *ready, struct error *err);
