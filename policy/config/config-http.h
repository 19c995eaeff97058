/* The keys of a server that is reached by HTTP. Internal to the config's reader, but for the checks. */
#pragma once

#include <stdbool.h>

#include "policy/config/config-internal.h"

/* {"NAME": "value"} added to a list of "NAME: value"; from_variables: the values are names of
 * variables. A complaint leaves *ret as it was. Returns 0 or -ENOMEM. */
int config_read_headers(yyjson_val *object, bool from_variables, char ***ret,
                        struct config_complaint *bad);
/* {"file": PATH} or {"command": [PROGRAM, …]}. Returns 0 or -ENOMEM. */
int config_read_token(yyjson_val *value, char **file, char ***command,
                      struct config_complaint *bad);

/* Why the text cannot be the url of a server, as a predicate; NULL when it can. */
const char *config_url_fault(const char *url);
/* Whether it is one line, as a header's value must be. */
bool config_header_value_valid(const char *value);
