/* "publish": tools, prompts, resources and templates that Python in a sandbox implements (docs/publish.md). */
#pragma once

#include "policy/config/object.h"

config_code_fn config_read_publish, config_read_code, config_check_file,
        config_check_profile_of_entry, config_read_complete, config_check_entry_text,
        config_check_entry_object, config_check_entry_array, config_read_schema,
        config_read_execution, config_check_mime_type, config_read_arguments;

/* The key of a kind in "publish" ("tools"), and that of the name in a list that clients get ("name", "uri"). */
const char *config_published_plural(enum config_published_kind kind);
const char *config_published_name_key(enum config_published_kind kind);
