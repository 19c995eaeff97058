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
        /* reminds: the worker has been interrupted before. */
        void (*interrupt)(void *data, uint32_t target, bool reminds);
        void (*kill)(void *data, uint32_t target);
        /* Freezes or thaws. Has no effect where the host cannot freeze. */
        void (*freeze)(void *data, uint32_t target, bool frozen);
        /* Copies of the worker (docs/cells.md). pid: in the sandbox; of restore 0: the newest. instead:
         * copies that it replaces, 0: none. */
        void (*keep)(void *data, uint32_t target, uint32_t pid,
                     const uint32_t instead[MONITOR_INSTEAD_MAX]);
        /* Such a copy takes the worker's place only if restore() names it. */
        void (*keep_aside)(void *data, uint32_t target, uint32_t pid);
        void (*drop)(void *data, uint32_t target, uint32_t pid);
        void (*restore)(void *data, uint32_t target, uint32_t pid);
        /* rolls_back: and /workspace is made what it was when a transaction began. */
        void (*wake)(void *data, uint32_t target, bool rolls_back);
        /* Gives the sandbox its network (rpc/egress-messages.h); descriptors are borrowed. NULL: there is none.
         * -ENETDOWN: the network of this server has ended. */
        int (*network)(void *data, uint32_t target, int page, int leash, struct error *err);
        /* The program that installs packages for this profile (its index in the newest config);
         * sessions_installer_started() or _failed() follows, or negative errno. */
        int (*installer_start)(void *data, uint32_t profile, uint32_t *serial);
        void (*installer_stop)(void *data, uint32_t instance);
        /* sessions_counted() follows. looks: init looks at files also if that takes long. */
        void (*count)(void *data, uint32_t target, bool looks);
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
