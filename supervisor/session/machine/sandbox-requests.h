/* Sandboxes as sessions and the pool get them: requests to the monitor and what it returns. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rpc/monitor-messages.h"
#include "supervisor/session/machine/inject-requests.h"

struct network_fds {
        int page, leash;
        int inject[2]; /* of a session with secrets for hosts: injected_connect(); -1: none */
};

struct sandbox_requests {
        void *data;
        /* Sends a request to the monitor (rpc/monitor-messages.def), which is answered by
         * sessions_event(). Returns 0, and the serial if that is not NULL, or negative errno. */
        int (*send)(void *data, const struct monitor_request *request, uint32_t *serial);
        /* Gives the sandbox its network (rpc/egress-messages.h); descriptors are borrowed. NULL: there is none.
         * -ENETDOWN: the network of this server has ended. */
        int (*network)(void *data, uint32_t target, const struct network_fds *fds,
                       struct error *err);
        struct inject_requests injects;
};

/* For requests whose serial the caller does not need. */
static inline int sandbox_request(const struct sandbox_requests *requests, enum monitor_verb verb,
                                  uint32_t target, uint32_t number)
{
        const struct monitor_request request = {.verb = verb, .target = target, .number = number};

        return requests->send(requests->data, &request, NULL);
}

/* For those that make something for a principal. */
static inline int sandbox_request_new(const struct sandbox_requests *requests,
                                      enum monitor_verb verb, size_t profile,
                                      const struct monitor_principal *principal, uint32_t *serial)
{
        const struct monitor_request request = {
                .verb = verb, .target = (uint32_t)profile, .principal = *principal};

        return requests->send(requests->data, &request, serial);
}

/* For a ready sandbox. all, own: the number of ready sandboxes, of all and of its principal, including this one. */
static inline int sandbox_request_spare(const struct sandbox_requests *requests, size_t profile,
                                        const struct monitor_principal *principal, size_t all,
                                        size_t own, uint32_t *serial)
{
        const struct monitor_request request = {.verb = MONITOR_SESSION_CREATE,
                                                .target = (uint32_t)profile,
                                                .number = monitor_spares(all, own),
                                                .principal = *principal};

        return requests->send(requests->data, &request, serial);
}

enum sandbox_offer {
        SANDBOX_NONE,   /* there is none yet */
        SANDBOX_READY,  /* target, fds (owned by the caller from now on) */
        SANDBOX_COMING, /* serial of the request */
};

struct sandbox_offered {
        uint32_t serial, target;
        int fds[SESSION_FDS];
};
