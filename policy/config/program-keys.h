/* "program" of a profile: a language whose code programs of the image run (docs/publish.md, "Other languages"). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_check_program, config_check_program_language, config_check_program_file,
        config_check_program_commands;
