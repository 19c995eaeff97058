/* The keys at the top level of a config file. */
#pragma once

#include "policy/config/object.h"

/* Reads the whole document. codes: by enum config_code. */
int config_read_file(struct config_reader *reader, config_code_fn *const *codes, yyjson_val *root);

config_code_fn config_read_profiles, config_read_profile, config_read_clients, config_read_id_range,
        config_read_nothing;
