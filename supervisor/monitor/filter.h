/* Compiles the tables of policy/seccomp.h to BPF with libseccomp and checks the result by
 * evaluating it. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/seccomp.h"

/* The program of one kind as a sealed memfd of struct sock_filter. Returns the descriptor. The
 * program has been self-tested: -EIO when what libseccomp made does not do what the table says. */
int filter_compile(enum filter_kind kind, struct error *err);
