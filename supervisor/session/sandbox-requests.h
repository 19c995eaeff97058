/* Sandboxes as sessions and the pool get them: requests to the monitor and what it returns. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rpc/monitor-messages.h"

/* Sends requests to the monitor. Its answers are passed to sessions_started() and the functions
 * after it. */
struct sandbox_requests {
        void *data;
        /* Requests a sandbox of this profile (its index in the newest config). Returns 0 with the
         * serial of the request, or negative errno. */
        int (*create)(void *data, uint32_t profile, uint32_t *serial);
        void (*interrupt)(void *data, uint32_t target);
        void (*kill)(void *data, uint32_t target);
        /* Freezes or thaws. Has no effect where the host cannot freeze. */
        void (*freeze)(void *data, uint32_t target, bool frozen);
};

enum sandbox_offer {
        SANDBOX_NONE,   /* there is none yet */
        SANDBOX_READY,  /* target, fds (owned by the caller from now on) */
        SANDBOX_COMING, /* serial of the request */
};

struct sandbox_offered {
        uint32_t serial, target;
        int fds[SESSION_FDS];
};
