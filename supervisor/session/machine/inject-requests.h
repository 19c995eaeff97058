/* Requests of a session to the process that has the secrets with "to" of its profile (supervisor/broker/inject.h), and what it keeps of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rpc/inject-messages.h"

struct inject_seat;
struct injected_record;

/* A request of code to such a host, as rules see it. */
struct injected_request {
        uint32_t serial;
        const char *method, *host, *path;
        uint16_t port;
};

struct injected_answer {
        uint32_t serial;
        bool is_allowed, is_recorded; /* is_recorded: ended() is expected */
        const char *why;              /* a clause, if it is not allowed */
};

/* The session of a seat. */
struct inject_user {
        void *data;
        /* inject_requests.answer() follows, at once or later. */
        void (*decide)(void *data, const struct injected_request *request);
        /* how: the status of the response, or INJECT_IN_DOUBT, INJECT_NOT_SENT. */
        void (*ended)(void *data, uint32_t serial, unsigned how, uint64_t bytes);
        /* The process has ended. */
        void (*lost)(void *data);
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
        void (*answer)(const struct inject_seat *seat, const struct injected_answer *answer);
};

struct session_injected {
        struct inject_request *placeholders; /* NULL: there is none */
        struct inject_seat *seat;            /* NULL: the process has ended */
        int list;                            /* a memfd with struct inject_list; or -1 */
        struct injected_record *records;     /* the newest first (injected-records.c) */
        size_t n_records;
};
