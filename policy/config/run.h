/* "run" and "result" of a published tool: its code comes with the call (docs/publish.md). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_check_run, config_read_run_language, config_check_language,
        config_read_run_session, config_check_run_name, config_read_run_env,
        config_read_run_timeout, config_read_result;

/* Checks a whole entry: its arguments are in its inputSchema, and the form of its result fits. */
int config_check_run_of_tool(struct config_reading *r, yyjson_val *object);
