/* The line about tools at the end of commands that write a config. */
#pragma once

#include "supervisor/options/options.h"

/* Prints what 'cloister tools --count' prints: how many tools of the configured servers may change things, as far as that
 * is known without starting them. configs of the options: as for that command. */
void tool_count_print(const struct options *o);
