/* A session in the process that has the network: what it may reach and use, and what it has used. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/network-rules.h"
#include "policy/rules/rules.h"
#include "rpc/egress-messages.h"

enum {
        EGRESS_CONNECTIONS_MAX =
                1024,                 /* of all sessions; fewer where few descriptors may be open */
        EGRESS_CONNECTIONS_EACH = 64, /* of a session; the others wait in the kernel's queue */
};

struct connection;
struct egress_inject;
struct resolver;
struct room;

/* The use of all its sessions. */
struct egress_principal {
        struct egress_principal *next;
        uint64_t id; /* 0: there is only one, whose sessions share as principals do */
        size_t n_sessions, n_connections;
        size_t granted; /* buffers.h */
};

struct egress {
        struct event_base *base;
        struct resolver *resolver;
        struct event *requests;
        struct egress_session *sessions;
        struct egress_principal *principals;
        uint64_t last_key;
        size_t n_connections, connections_max;
        size_t granted; /* buffers.h */
        struct room *rooms;
};

struct egress_session {
        struct egress *egress;
        struct egress_session *next;
        uint64_t key; /* its number, never 0 */
        int listener, leash;
        struct event accepting, end, tick;
        struct egress_page *page; /* shared with the broker, which only reads counts */

        /* Copies: the page is not read again. */
        char profile[sizeof(((struct egress_policy *)0)->profile)];
        struct network_rule rules[NETWORK_RULES_MAX];
        size_t n_rules;
        struct rules *call_rules;     /* about connections; NULL: none */
        struct egress_inject *inject; /* hosts of secrets; NULL: none */
        struct egress_principal *principal;
        uint64_t max_bytes, rate;

        uint64_t used; /* bytes */
        int64_t tokens; /* bytes that may be read now, if there is a rate; negative: heads took more */
        uint64_t filled_us;
        struct connection *connections;
        size_t n_connections;
        size_t granted; /* buffers.h */

        /* Of the slots of the page. */
        uint32_t last_id;
        uint16_t users[EGRESS_HOSTS_MAX]; /* connections that count there */
        uint64_t used_at[EGRESS_HOSTS_MAX];
};

/* Whether the rules about connections allow this one. */
bool egress_session_allows(const struct egress_session *s, const char *host, uint16_t port);

/* Maps the page that is shared with the broker. The descriptor is borrowed. Copies the policy from the page, and the counts
 * of a process that had the session before. */
int egress_session_map(struct egress_session *session, int fd, struct error *err);
void egress_session_unmap(struct egress_session *session);

/* Returns how many bytes a connection may read now, at most `most`. 0: none, egress_connections_wake() follows; -EDQUOT: max_bytes
 * are used up. */
ssize_t egress_session_allow(struct egress_session *session, size_t most);
/* Whether nothing may be read now because of the rate. egress_connections_wake() follows then. */
bool egress_session_must_wait(struct egress_session *session);
/* So many were read. Those of heads may be more than were allowed: they are made up for later. */
void egress_session_used(struct egress_session *session, size_t n);

/* Adds to the connections of the session, of its principal and of all. */
void egress_session_count(struct egress_session *session, ssize_t n);
/* A connection has ended: another one may be accepted. */
void egress_session_left(struct egress_session *session);

/* ---- bytes and requests by host, in the page ---- */

enum { TALLY_NONE = -1 };

/* A connection counts in the slot of this host until tally_leave(). */
int tally_enter(struct egress_session *session, const char *host, uint16_t port);
void tally_leave(struct egress_session *session, int slot);

void tally_bytes(struct egress_session *session, int slot, bool is_in, size_t n);
/* A refusal or a failure. host: "" if it is not known. */
void tally_refused(struct egress_session *session, const char *host, uint16_t port,
                   enum egress_reason why);
