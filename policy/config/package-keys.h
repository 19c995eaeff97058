/* "packages" of a profile: the packages that its sessions may have installed (docs/packages.md). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_check_allowed_packages, config_check_index, config_check_age;
