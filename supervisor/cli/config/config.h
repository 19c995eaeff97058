/* Shared by the commands of `cloister config`. */
#pragma once

#include "base/json-out.h"
#include "policy/config/config.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/config/config-files.h"

/* A config that is only inspected, with all its problems. */
struct checked_config {
        struct config *config;
        struct config_files *files; /* NULL when they could not be opened */
        struct config_findings findings;
};

int checked_config_open(struct checked_config *checked, const struct options *o, struct error *err);
void checked_config_done(struct checked_config *checked);

/* Prints the JSON that was written, and a line break. Returns the exit status. */
int config_print(const struct json_out *out);

/* The commands. Each returns the exit status. */
int cli_config_path(const struct options *o, const char *const *words, size_t n);
int cli_config_check(const struct options *o, const char *const *words, size_t n);
int cli_config_show(const struct options *o, const char *const *words, size_t n);
int cli_config_schema(const struct options *o, const char *const *words, size_t n);
