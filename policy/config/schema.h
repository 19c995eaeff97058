/* The keys of a config as JSON Schema (draft 2020-12). */
#pragma once

#include "base/json-out.h"
#include "policy/config/keys.h"

/* Writes the schema of a config file. */
void config_schema(struct json_out *out);

/* Writes a number, a boolean or a word as it is written in a config: 1.5, "512M", true, "never". name: of
 * the member, or NULL. */
void config_put_number(struct json_out *out, const char *name, const struct config_key *key,
                       uint64_t value);
