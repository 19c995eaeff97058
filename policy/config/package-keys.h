/* "packages" of a profile, the packages that its sessions may have installed (docs/packages.md), and "libraries", those of its
 * default image. */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_check_allowed_packages, config_check_index, config_check_age,
        config_check_npm, config_check_allowed_npm, config_check_libraries, config_check_registry;
