/* The servers of a config file, and the keys of their entries that need code. */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_read_servers, config_read_command, config_read_args, config_read_env,
        config_read_type, config_read_headers, config_read_token, config_check_server_time,
        config_read_oauth, config_check_oauth_secret, config_check_oauth_path,
        config_check_oauth_url, config_check_oauth_issuer, config_read_oauth_scopes;
