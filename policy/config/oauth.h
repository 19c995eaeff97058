/* The keys of "oauth" that need code (docs/oauth.md). */
#pragma once

#include "policy/config/object.h"

config_code_fn config_read_oauth, config_check_oauth_secret, config_check_oauth_path,
        config_check_oauth_url, config_check_oauth_issuer, config_read_oauth_scopes;
