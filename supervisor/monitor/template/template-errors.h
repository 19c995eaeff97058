/* Marks errors of a template that mean that this machine cannot run any sandbox. */
#pragma once

#include "base/error.h"

/* Sets MONITOR_CODE_NO_SANDBOX if this machine always refuses a step. It does not if something is
 * lacking at the moment, or if the tree of the image or of a mounted directory is at fault. */
void template_error_mark(struct error *error);

/* Of an error that a template has sent. */
void template_error_sanitize(struct error *error);
