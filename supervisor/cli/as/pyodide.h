/* npm's package "pyodide", for a table whose code runs in Pyodide. */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"

/*
 * Writes the directory of the package to the settings of each profile whose published tools need it: that of the config's key, or
 * the first one that npm may have installed it to. -ENOENT with a line that says how to get it.
 */
int pyodide_put(const struct config *config, struct json_tree *settings, struct error *err);
