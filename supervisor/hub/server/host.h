/* The functions of the owner of the hub. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/client-ask.h"

struct hub_host {
        void *data;
        /* Asks the monitor for the server of this index; hub_upstream_started() or _failed()
         * follows. */
        void (*start)(void *data, uint32_t index);
        /* Asks the monitor to end an instance; hub_upstream_ended() follows. */
        void (*stop)(void *data, uint32_t instance);
        /* The catalogue has changed; several changes within 20 ms are reported once. */
        void (*changed)(void *data);
        /* A server asks the owner's client for something while it works on no call. As the function of
         * struct hub_caller; NULL: there is no such client. */
        int (*ask)(void *data, struct client_ask *ask, struct error *err);
        /* A page that a server requested to be opened is done (id: its elicitationId). May be NULL. */
        void (*page_done)(void *data, const char *server, const char *id, size_t n);
};
