/*
 * Whether sandboxes can be made on this machine, as the answers to requests for one show.
 *
 * While it is not known, or the last request has failed, sandbox_check_again() has a sandbox made, which is killed at once: otherwise a server
 * to which no balancer sends calls would never learn that sandboxes can be made again. A request that failed because something is full, or
 * because the config was reloaded, shows nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rpc/monitor-messages.h"
#include "supervisor/session/machine/sandbox-requests.h"

enum sandbox_ability {
        SANDBOX_ABILITY_UNKNOWN, /* none was requested so far */
        SANDBOX_ABILITY_YES,
        SANDBOX_ABILITY_NO, /* the last request has failed */
};

enum { SANDBOX_CHECK_MS = 10000 /* between two sandboxes that are made for this only */ };

/* Initialised by zeroes. */
struct sandbox_check {
        enum sandbox_ability ability;
        bool is_asked; /* serial: of the request that this has sent */
        uint32_t serial;
        uint64_t asked_us; /* 0: never */
};

/* Takes the monitor's answer to a SESSION_CREATE. Returns true if it was the answer to sandbox_check_again(): the sandbox is
 * ended, and its descriptors are closed. */
bool sandbox_check_answer(struct sandbox_check *check, const struct sandbox_requests *requests,
                          const struct monitor_message *message);

/* Has a sandbox of this profile made, unless one can be made or was requested lately. */
void sandbox_check_again(struct sandbox_check *check, const struct sandbox_requests *requests,
                         size_t profile);
