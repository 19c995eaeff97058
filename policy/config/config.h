/*
 * The config: config.json, or a file of another client in the mcpServers format (docs/config.md).
 *
 * Monitor and broker parse the same sealed bytes and get the same indices: the broker asks for a server by
 * index, the monitor starts it. No system calls here: the monitor opens the files, and a function looks
 * environment variables up. policy/config/add.h reads files into a config; keys.def has the keys.
 */
#pragma once

#include "base/error.h"
#include "policy/config/types.h"

/* An empty config with the defaults; NULL without memory. */
struct config *config_new(void);
/* The target of the monitor's message with a config file: 0 for a file of the user, the number of a published entry
 * for its code, CONFIG_TARGET_LAYER and a layer for other files. */
enum { CONFIG_TARGET_LAYER = 1000 };
/* Drops one reference. */
struct config *config_free(struct config *config);
/* Takes a reference: after a reload, living sessions keep the config that they were made with. */
struct config *config_ref(const struct config *config);

void config_findings_done(struct config_findings *findings);
/* Adds an error that the caller found. Returns false when errors are not collected. */
bool config_report(struct config *config, bool is_error, const char *text);
/* Adds a warning. Takes text, allocated; NULL is -ENOMEM. */
int config_add_warning(struct config *config, char *text);

void config_forget_references(struct config *config);

/* Whether two lists have the same texts. NULL is an empty list. */
bool config_same_list(char *const *a, char *const *b);
/* Whether a sandbox that was made for one profile serves for the other. */
bool config_same_sandbox(const struct config_profile *a, const struct config_profile *b);

/* Index of a profile, or -ENOENT with a suggestion in the message. */
int config_find_profile(const struct config *config, const char *name, struct error *err);
/* `background` counts at once: that of the profile as the newest config has it. own: of a session, or NULL. */
uint32_t config_background_ms(const struct config *newest, const struct config_profile *own);
/* The same without a message; SIZE_MAX if there is no such profile. */
size_t config_profile_index(const struct config *config, const char *name);
/* The profile of a name, made if there is none. NULL without memory, or with errno E2BIG beyond
 * CONFIG_PROFILES_MAX. */
struct config_profile *config_profile_named(struct config *config, const char *name);
/* Index of the profile of a client; config->profile for a client without an entry, or NULL. */
size_t config_profile_of_client(const struct config *config, const char *client);
/* Sets the profile of a client. Returns 0 or -ENOMEM. */
int config_set_client(struct config *config, const char *client, size_t profile);

/* The profile that sessions get unless told otherwise. NULL: a config without any, as tests make.
 */
static inline const struct config_profile *config_usual_profile(const struct config *config)
{
        return config->n_profiles > 0 ? &config->profiles[config->profile] : NULL;
}

/* Whether the rules allow a tool of a server. server: NULL if the rules are a server's. */
bool config_tool_allowed(const struct config_tool_rules *rules, const char *server,
                         const char *tool);
