/* The tables of policy/seccomp/rules.h as BPF, compiled with libseccomp by the build or here, and checked
 * here by evaluating it. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/seccomp/rules.h"

/* The program of one kind as a sealed memfd of struct sock_filter. Returns the descriptor. The
 * program has been self-tested: -EIO when what libseccomp made does not do what the table says. */
int filter_compile(enum filter_kind kind, struct error *err);

/* The same from a program that was compiled before; NULL, or one that fails the test: it is
 * compiled now. */
struct filter_ready;
int filter_seal(enum filter_kind kind, const struct filter_ready *ready, struct error *err);
