/* Questions about the options of the monitor. */
#pragma once

#include <stdbool.h>

#include "base/exit-status.h"
#include "policy/config/types.h"
#include "supervisor/options/options.h"

/* Whether the broker serves clients (mcp, serve): it gets a control socket. */
static inline bool monitor_is_server(const struct options *options)
{
        return options->mode == MODE_MCP || options->mode == MODE_SERVE;
}

/* Whether the broker runs one script (run). */
static inline bool monitor_is_for_one(const struct options *options)
{
        return options->mode == MODE_RUN;
}

/* The exit status of `run` tells a failure of ours from an exception of the code. */
static inline int monitor_failure(const struct options *options)
{
        return monitor_is_for_one(options) ? EXIT_CLOISTER : 1;
}
