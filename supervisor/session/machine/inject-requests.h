/* Requests of a session to the process that has the secrets with "to" of its profile (supervisor/broker/inject.h), and what it keeps of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/inject-messages.h"

struct inject_seat;

/* A request of code to such a host, as rules see it. */
struct injected_request {
        const char *method, *host, *path;
        uint16_t port;
};

/* The session of a seat. why: gets a clause if the request is not allowed. */
struct inject_user {
        void *data;
        bool (*decide)(void *data, const struct injected_request *request, char *why, size_t size);
};

/* The functions of the broker for it; descriptors belong to the caller. */
struct inject_requests {
        /* -ENOENT: there is no such process for the profile. */
        int (*take)(void *data, const char *profile, const struct inject_user *user,
                    struct inject_seat **ret, struct error *err);
        /* Returns the other end of the session's pair, or negative errno. */
        int (*open)(const struct inject_seat *seat, const struct inject_request *placeholders,
                    struct error *err);
        const char *(*certificate)(const struct inject_seat *seat);
        void (*leave)(struct inject_seat *seat);
};

struct session_injected {
        struct inject_request *placeholders; /* NULL: there is none */
        struct inject_seat *seat;            /* NULL: the process has ended */
        int list;                            /* a memfd with struct inject_list; or -1 */
};
