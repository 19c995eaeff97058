/* A config as JSON. */
#pragma once

#include "base/json.h"
#include "policy/config/config.h"

/* The whole config as a document, with secrets masked. places: adds file, line and problem of each
 * server. NULL: out of memory. */
yyjson_mut_val *config_show(yyjson_mut_doc *doc, const struct config *config, bool places);
