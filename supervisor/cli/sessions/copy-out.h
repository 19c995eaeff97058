/* Copies files out of a session. */
#pragma once

#include "supervisor/cli/sessions/copy.h"
#include "supervisor/cli/sessions/file-writer.h"

/* to: a path of this machine, or "-". An error is one for the whole copy. */
int copy_out(struct copy *copy, const char *to, struct error *err);

/* Copies all files below a directory of the session. -ENOENT: that does not exist. */
int copy_out_all(struct copy *copy, struct file_writer *writer, struct error *err);
