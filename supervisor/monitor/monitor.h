/*
 * The monitor: the only holder of host privilege, if there is any. Starts the broker, makes,
 * interrupts and kills sandboxes and starts upstream servers for it; no JSON from the broker, no
 * paths, no network.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/exit-status.h"
#include "policy/package-set.h"
#include "supervisor/config/config-files.h"
#include "supervisor/monitor/broker-launch.h"

struct monitor_options {
        const char *configs[CONFIG_PATHS_MAX];
        size_t n_configs;
        const char *image, *python; /* or NULL: as the config says */
        const char *link;           /* of an image to build: "embed", "module", or NULL */
        const char *profile;        /* its template starts early; NULL: the config's */
        const char *mounts;         /* for that profile, besides: JSON (policy/config.h); or NULL */
        const char *rootfs;         /* `image build` only: the image is made from it; or NULL */
        struct package_set set;     /* what the image is to have besides; `image build` alone takes
                                       it with a name */
        int pass_fds[BROKER_PASS_FDS_MAX];
        size_t n_pass_fds;
        const char *log_file; /* or NULL: standard error */
        int log_level;        /* enum log_level, which the config does not change; negative: none */
        int log_format;       /* enum log_format; negative: by where the log goes */
        bool quiet;
        char **broker; /* its arguments, NULL-terminated */
};

/* Whether the broker serves clients (mcp, serve): it gets a control socket. */
static inline bool monitor_is_server(const struct monitor_options *options)
{
        const char *mode = options->broker[0];

        return mode && (strcmp(mode, "mcp") == 0 || strcmp(mode, "serve") == 0);
}

/* Whether the broker runs one script (run). */
static inline bool monitor_is_for_one(const struct monitor_options *options)
{
        const char *mode = options->broker[0];

        return mode && strcmp(mode, "run") == 0;
}

/* The exit status of `run` tells a failure of ours from an exception of the code. */
static inline int monitor_failure(const struct monitor_options *options)
{
        return monitor_is_for_one(options) ? EXIT_CLOISTER : 1;
}

/* Serves until the broker ends. Returns the exit status of the program. */
int monitor_serve(const struct monitor_options *options);

/* `cloister image build`: builds and waits. Returns the exit status of the program. */
int monitor_build_image(const struct monitor_options *options);
