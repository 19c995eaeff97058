/* The config files of a command, and the profile whose rules are meant. */
#pragma once

#include "policy/config/config.h"
#include "policy/config/rule-keys.h"
#include "supervisor/cli/command/command.h"
#include "supervisor/config/config-files.h"

struct opened_config {
        struct config *config;
        struct config_files *files;
        const struct config_profile *profile;
        struct rules_server servers[CONFIG_SERVERS_MAX];
        size_t n_servers;
};

/* Call opened_config_close() in any case. */
int opened_config_open(struct opened_config *opened, const struct options *o, struct error *err);
void opened_config_close(struct opened_config *opened);

/* Parses all files again, with another text instead of that of file `index`. Returns 0, or why such a config would be refused. */
int opened_config_try(const struct opened_config *opened, size_t index, const char *text, size_t n,
                      struct error *err);
