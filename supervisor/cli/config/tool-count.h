/* What commands that write a config say of the tools which it gives to code. */
#pragma once

#include "supervisor/options/options.h"

/* Prints what 'cloister tools --count' prints: how many tools of the configured servers may change things, as far as that
 * is known without starting them. configs of the options: as for that command. */
void tool_count_print(const struct options *o);
