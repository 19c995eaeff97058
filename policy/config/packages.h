/* The keys of "packages" that need code (docs/packages.md). */
#pragma once

#include "policy/config/object.h"

config_code_fn config_check_allowed_packages, config_check_index, config_check_age;
