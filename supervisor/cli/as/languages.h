/* The languages that a server has: published code reads them as settings["languages"]. */
#pragma once

#include <yyjson.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "supervisor/config/config-files.h"
#include "supervisor/options/options.h"

/*
 * Adds "languages" to the values of the settings: Python, JavaScript and each language of a "program" whose profile's image
 * exists now. layers: the table, and the settings so far. Does nothing if the table has no "program". An error of the user's
 * config is left to who reads it next. Returns 1 if it was added, else 0.
 */
int languages_put(const struct options *o, const struct config *table,
                  const struct config_layers *layers, yyjson_mut_doc *settings, struct error *err);
