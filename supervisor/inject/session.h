/* A session in cloister-inject: its placeholders, its pair with the process that has the network, and its connections. */
#pragma once

#include <event2/event.h>

#include "supervisor/inject/authority.h"
#include "supervisor/inject/mask.h"
#include "supervisor/inject/placeholders.h"

enum {
        INJECT_SESSIONS_MAX = 256,
        INJECT_CONNECTIONS_MAX = 128, /* of all sessions; principals share them (base/share.h) */
        INJECT_CONNECTIONS_EACH = 32,
        INJECT_BODY_MAX = 1024 * 1024, /* of a request into whose body a value may be put */
        INJECT_WHOLE_MAX =
                32 * 1024, /* a larger body of another request is passed on while it arrives */
        INJECT_BODIES_MAX = 8 * 1024 * 1024, /* of all requests together; principals share them */
};

struct inject_connection;
struct inject_session;

/* The shares of all sessions of a principal. */
struct inject_use {
        size_t n_connections, bodies;
};

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
        uint64_t id, principal; /* principal 0: it shares as a principal does */
        char profile[80];
        int socket;
        struct event *readable;
        struct inject_connection *connections;
        size_t n_connections, bodies;
        struct placeholder items[INJECT_SECRETS_MAX];
        char placeholders[INJECT_SECRETS_MAX][INJECT_PLACEHOLDER_SIZE];
};

static inline struct inject_use inject_use_of_principal(const struct inject_session *session)
{
        struct inject_use use = {};

        for (const struct inject_session *s = session->inject->sessions; s; s = s->next) {
                if (s != session && (s->principal == 0 || s->principal != session->principal))
                        continue;
                use.n_connections += s->n_connections;
                use.bodies += s->bodies;
        }
        return use;
}
