/* "network" of a profile. */
#pragma once

#include "policy/config/config-internal.h"

int config_read_network(struct config_reader *reader, struct config_profile *profile,
                        const char *where, yyjson_val *value);
