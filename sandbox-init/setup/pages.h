/*
 * The pages that a worker writes on its way to its first result. They are the template's until
 * then, and a fault each; known in advance they are one sweep, while the rest of the session is
 * built. A list of the template's own, of what its fork may write anyway: a wrong one costs time.
 */
#pragma once

#include <sys/types.h>

/* In the template: those that a fork of it has to itself by now. */
void pages_see(pid_t fork);

/* In a new worker: has them all to itself, where the kernel can (5.14). */
void pages_fetch(void);
