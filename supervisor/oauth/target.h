/* The server that a command is about, as the config has it. */
#pragma once

#include "policy/config/config.h"
#include "supervisor/oauth/metadata.h"
#include "supervisor/oauth/store.h"

struct oauth_target {
        const char *name, *url;
        const struct config_oauth *config;
        struct oauth_reach reach;
        char secret[OAUTH_SECRET_MAX + 1]; /* of the config, "": none */
        char key[OAUTH_KEY_MAX + 1];       /* of the config, "": none; oauth_key_read() */
};

/* Reads the config's client_secret, client_secret_file or private_key_file into the target. */
int oauth_target_read_secret(struct oauth_target *target, struct error *err);

/* A name as a word of a shell's command line. */
const char *oauth_shell_word(const char *name, char *ret, size_t size);
