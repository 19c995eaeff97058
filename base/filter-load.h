/* Loads a compiled system call filter from a sealed memfd of struct sock_filter. */
#pragma once

#include "base/error.h"

/* no_new_privs must be set. Allocates nothing. Every thread of the caller is the one that calls. */
int filter_load(int fd, struct error *err);

/* Returns also the listener of the filter. -1: the kernel gives none, or a filter around this process has one; calls that
 * the filter would send to it fail with ENOSYS. */
int filter_load_listening(int fd, int *listener, struct error *err);
