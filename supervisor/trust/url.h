/* URLs in arguments of calls, as libcurl's parser reads them. */
#pragma once

#include "policy/rules/condition.h"

/* The function for struct rules_call. Refuses all schemes except http and https, user names, and bytes that parsers read differently:
 * backslashes, blanks, control characters and bytes beyond ASCII. */
rules_url_fn trust_read_url;
