/* The config as Cloister understands it, in the format of a config file. */
#pragma once

#include "base/json-out.h"
#include "policy/config/config.h"

/* Writes the whole config, with secrets masked. places: adds file, line and problem of each server. */
void config_show(struct json_out *out, const struct config *config, bool places);
