/* The keys of a profile that need code. */
#pragma once

#include "policy/config/object.h"

config_code_fn config_read_network, config_check_hosts, config_read_mounts, config_check_modules,
        config_check_server_names, config_read_pool, config_check_freeze,
        config_check_allowed_packages, config_check_index, config_check_age;

/* Whether a path is below a folder, or is the folder. */
bool config_is_within(const char *path, const char *folder);
