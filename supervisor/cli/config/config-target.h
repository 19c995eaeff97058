/* The config file that `cloister config import` and `cloister publish` add entries to. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "supervisor/cli/command/command.h"

/* Its path: the file named by --config, name in the directory named by it, or the user's own config. */
int config_target_path(const struct options *o, const char *name, char ret[PATH_MAX],
                       struct error *err);

/* Its text, and the document parsed from it; the caller owns both. Returns 1; 0: there is no such file. */
int config_target_read(const char *path, char **text, size_t *n, yyjson_doc **doc,
                       struct error *err);

/* Replaces the file atomically. private: with mode 0600. */
int config_target_write(const char *path, const struct buffer *text, bool private,
                        struct error *err);
