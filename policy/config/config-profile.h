/* The keys of a profile that a config sets, as bits of config_profile.said. */
#pragma once

#include "policy/config/config-internal.h"

#define CONFIG_PROFILE_DEFAULT "default"

enum {
        SAID_IMAGE = 1,
        SAID_PYTHON = 2,
        SAID_NETWORK = 4,
        SAID_MOUNTS = 8,
        SAID_PRELOAD = 16,
        SAID_SERVERS = 32,
        SAID_TOOLS = 64,
        SAID_AGENT = 128,
        SAID_POOL = 256,
        SAID_FREEZE = 512,
        SAID_STATE = 1024,
        SAID_PACKAGES = 2048,
};
enum { CONFIG_LIMITS = 6 };
#define SAID_LIMIT(i) (1u << (16 + (i)))

/* The keys of "limits"; offsets in struct config_profile. */
extern const struct config_key config_limit_keys[CONFIG_LIMITS];

/* Frees them; there are none then. */
void config_profile_drop_mounts(struct config_profile *profile);
