/* What the commands of `cloister config` share. */
#pragma once

#include "base/json.h"
#include "policy/config.h"
#include "supervisor/cli/options.h"
#include "supervisor/config/config-files.h"

/* A config that is only looked at: with all that is wrong in it. */
struct config_view {
        struct config *config;
        struct config_files *files; /* NULL when they could not be opened */
        struct config_findings findings;
};

int config_view_open(struct config_view *view, const struct cli_options *o, struct error *err);
void config_view_done(struct config_view *view);

/* The whole config as a document, its secrets masked. places: with where each server stands, and
 * what is wrong with it. NULL without memory. */
yyjson_mut_val *config_show(yyjson_mut_doc *doc, const struct config *config, bool places);

/* Prints a value on standard output. Returns the exit status. */
int config_print(yyjson_mut_val *value, bool pretty);
