/*
 * A worker that no session is made for: a fork of the template with a channel to it, which goes the
 * way to a first result, for the template to see which pages that writes
 * (sandbox-init/setup/pages.h).
 */
#pragma once

#include <stddef.h>

#include "sandbox-init/setup/template.h"

/* cell: of REHEARSAL_CELL_MOST bytes at most, the payload of its EXEC. Returns 1 in the fork, which
 * waits for no release; in the template 0, once the fork is gone, or -EAGAIN when somebody asked
 * for a session before its result came. */
enum { REHEARSAL_CELL_MOST = 256 };
int rehearsal(const char *cell, size_t n, struct template_session *ret);
