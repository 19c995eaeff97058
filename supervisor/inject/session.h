/* A session in cloister-inject: its placeholders, its pair with the process that has the network, and its connections. */
#pragma once

#include <event2/event.h>

#include "supervisor/inject/authority.h"
#include "supervisor/inject/mask.h"
#include "supervisor/inject/placeholders.h"

enum {
        INJECT_SESSIONS_MAX = 256,
        INJECT_CONNECTIONS_MAX =
                128, /* of all sessions; an even part of it for each one that has any */
        INJECT_CONNECTIONS_EACH = 32,
        INJECT_BODY_MAX = 1024 * 1024, /* of a request into whose body a value may be put */
        INJECT_WHOLE_MAX =
                32 * 1024, /* a larger body of another request is passed on while it arrives */
        INJECT_BODIES_MAX = 4 * 1024 * 1024, /* of all requests together */
};

struct inject_connection;
struct inject_session;

struct inject {
        struct event_base *base;
        int broker; /* its socket */
        const struct inject_settings *settings;
        struct authority *authority;
        struct value_mask *mask;
        struct placeholders placeholders;
        struct inject_session *sessions;
        size_t n_sessions, n_connections, bodies;
        uint32_t last_serial;
};

struct inject_session {
        struct inject *inject;
        struct inject_session *next;
        uint64_t id;
        char profile[80];
        int socket;
        struct event *readable;
        struct inject_connection *connections;
        size_t n_connections;
        struct placeholder items[INJECT_SECRETS_MAX];
        char placeholders[INJECT_SECRETS_MAX][INJECT_PLACEHOLDER_SIZE];
};
