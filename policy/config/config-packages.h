/* "packages" of a profile: what a session may have installed (docs/packages.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
        CONFIG_PACKAGES_ALLOW_MAX = 256,
        CONFIG_PACKAGES_INDEX_MAX = 2000,
};

struct config_packages {
        bool install;
        char **allow; /* names with specifiers, NULL-terminated; NULL: every package of the index */
        char *index;  /* http, https or file; ${VAR} is not expanded. NULL: the installer's own */
        uint64_t
                max_bytes; /* of one installation: what is downloaded, and what it is unpacked to */
        uint32_t timeout_ms; /* of one installation */
        char *exclude_newer; /* "14d", or a date; NULL: nothing is excluded */
};
