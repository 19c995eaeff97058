/* What an error of a template means to those who asked for a session. */
#pragma once

#include "base/error.h"

/* Sets MONITOR_CODE_NO_SANDBOX if this machine refuses a step for good. It does not where something is
 * lacking at the moment, and where the tree of the image or of a mounted directory is at fault. */
void template_error_mark(struct error *error);

/* Of an error that a template has sent. */
void template_error_sanitize(struct error *error);
