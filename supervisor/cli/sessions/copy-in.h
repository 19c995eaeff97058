/* Copies files into a session. */
#pragma once

#include "supervisor/cli/sessions/copy.h"

/* from: a path of this machine, or "-". An error is one for the whole copy. */
int copy_in(struct copy *copy, const char *from, struct error *err);

/* The files of a stream (rpc/file-stream.h) in fd, written in place. */
int copy_in_stream(struct copy *copy, int fd, struct error *err);
