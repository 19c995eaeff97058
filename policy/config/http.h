/* Checks of the url and the headers of a server. */
#pragma once

#include <stdbool.h>

/* Why the text cannot be the url of a server, as a predicate; NULL when it can. */
const char *config_url_fault(const char *url);
/* Why the text cannot be the name of a header in an entry, as a predicate; NULL when it can. */
const char *config_header_fault(const char *name);
/* Whether it is one line, as a header's value must be. */
bool config_header_value_valid(const char *value);
