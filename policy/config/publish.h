/* "publish": tools, prompts, resources and templates that Python in a sandbox implements (docs/publish.md). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_read_publish, config_read_code, config_check_file, config_read_complete,
        config_check_entry, config_read_schema, config_read_execution, config_check_mime_type,
        config_read_arguments;

/* The key of a kind in "publish": "tools". */
const char *config_published_plural(enum config_published_kind kind);
