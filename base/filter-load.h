/* Loads a compiled system call filter from a sealed memfd of struct sock_filter. */
#pragma once

#include "base/error.h"

/* no_new_privs must be set. Allocates nothing. Every thread of the caller is the one that calls. */
int filter_load(int fd, struct error *err);
