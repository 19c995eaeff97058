/* The languages that a server has: published code reads them as settings["languages"]. */
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "policy/config/config.h"

/*
 * Adds "languages" to the values of the settings: Python, JavaScript and each language of a "program" whose profile's image
 * exists now.
 */
int languages_put(const struct config *config, struct json_tree *settings, struct error *err);
