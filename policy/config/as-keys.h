/* "as": what a table says about the system that Cloister replaces (docs/as.md). */
#pragma once

#include "policy/config/reader.h"

/* The functions of the rows of CONFIG_AS and CONFIG_SETTING (codes.def). */
config_code_fn config_read_settings, config_keep_json, config_check_pointers;
