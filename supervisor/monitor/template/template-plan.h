/* The plan that a template gets: TEMPLATE_PLAN with its descriptors. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "policy/limits.h"
#include "rpc/sandbox-messages.h"

/* The parts of a template; descriptors are borrowed. */
struct template_parts {
        const struct image_info *image;
        int image_fd;  /* O_PATH directory of the image's root */
        int worker_fd; /* by the image's link: cloister-worker or cloister-module */
        int init_fd;
        const struct config_profile *profile; /* preload, network and mounts; NULL: none */
        const struct limits *limits;          /* of the template itself; NULL: the default ones */
        const int *sources;                   /* O_PATH directories, in the order of its mounts */
        int packages_fd;                      /* O_PATH directory for PACKAGES_TARGET; -1: none */
        bool rlimits; /* no control group bounds it for sure: stricter filter and /dev, rlimits */
        int template_filter_fd, worker_filter_fd, init_filter_fd, stub_filter_fd;
};

/* control: the monitor's end of the socket. */
int template_plan_send(int control, enum sandbox_mode mode, const struct template_parts *parts,
                       struct error *err);
