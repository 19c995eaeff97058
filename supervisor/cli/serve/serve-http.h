/* `cloister serve`. */
#pragma once

#include "supervisor/cli/command/command.h"

#define LISTEN_DEFAULT "127.0.0.1:8808"

int cli_serve(const struct options *o, const char *const *words, size_t n);
