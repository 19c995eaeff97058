/* `cloister approve`: lists, shows and answers the questions of running servers about calls of tools (docs/questions.md). */
#pragma once

#include <stddef.h>

#include "supervisor/options/options.h"

int cli_approve(const struct options *options, const char *const *words, size_t n);
