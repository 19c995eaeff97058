/* Loads a compiled system call filter from a sealed memfd of struct sock_filter. */
#pragma once

#include <linux/seccomp.h>
#include <stdbool.h>

#include "base/error.h"

/* A compiled program returns it for calls that a listener answers if there is one, and that are allowed otherwise: the program
 * is loaded with SECCOMP_RET_USER_NOTIF or SECCOMP_RET_ALLOW instead. It is not the errno of any error. */
#define FILTER_ASK_OR_ALLOW (SECCOMP_RET_ERRNO | 4094u)

/* no_new_privs must be set. Allocates nothing. Every thread of the caller is the one that calls. */
int filter_load(int fd, struct error *err);

/* Returns also the listener of the filter. -1: the kernel gives none, or a filter around this process has one; calls that
 * the filter would send to it fail with ENOSYS. asks: it answers also the calls with FILTER_ASK_OR_ALLOW. */
int filter_load_listening(int fd, bool asks, int *listener, struct error *err);
