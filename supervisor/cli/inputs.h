/* The files of `cloister run --in`, as one sealed stream of records (rpc/file-stream.h). */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Each is FILE, or FILE=NAME, where NAME is a path below /workspace. Returns a sealed memfd. */
int inputs_collect(const char *const *given, size_t n, struct error *err);
