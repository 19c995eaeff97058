/*
 * The messages of cloister-inject (supervisor/inject/), each of fixed size: with the broker, over one SOCK_SEQPACKET pair for
 * a process; with the process that has the network, over one SOCK_STREAM pair for a session, where the descriptors of a message keep it
 * apart from the next one.
 *
 * The broker opens a session with the placeholders that it has made for it. The end of a session's pair ends its connections.
 */
#pragma once

#include <stdint.h>

enum {
        INJECT_SECRETS_MAX = 16,
        INJECT_HOSTS_MAX = 32,                   /* of a profile */
        INJECT_RULES_MAX = 2 * INJECT_HOSTS_MAX, /* with port 80 of inspected hosts */
        INJECT_NAME_SIZE = 72,
        INJECT_HOST_SIZE = 256,
        INJECT_PLACEHOLDER_SIZE = 128, /* with a NUL */
        INJECT_PATH_SIZE = 4100,
        INJECT_CERTIFICATE_SIZE = 16 * 1024, /* PEM */
        INJECT_HANDED_FDS = 2,

        /* How a request ended without a complete response. */
        INJECT_IN_DOUBT = 0, /* some of it was sent */
        INJECT_NOT_SENT = 1,
};

enum inject_verb {
        INJECT_OPEN = 1, /* has a descriptor: the session's pair */
        INJECT_ANSWER,   /* to INJECT_ASK */
        INJECT_VERB_MAX,
};

struct inject_request {
        uint32_t verb;
        uint32_t serial; /* of INJECT_ASK */
        uint32_t allowed;
        uint32_t recorded; /* the broker waits for INJECT_ENDED */
        char why[256];     /* a clause, if it is not allowed */
        char profile[80];
        struct {
                char name[INJECT_NAME_SIZE];
                char text[INJECT_PLACEHOLDER_SIZE];
        } placeholders[INJECT_SECRETS_MAX]; /* of INJECT_OPEN; the name "" ends the list */
        uint64_t session;
        uint64_t
                principal; /* of INJECT_OPEN; 0: there is only one, whose sessions share as principals do */
};

enum inject_event_kind {
        INJECT_READY = 1, /* the first one */
        INJECT_ASK,       /* whether a request may be sent: the answer follows */
        INJECT_ENDED,     /* of a request whose answer has `recorded`: `status` */
        INJECT_EVENT_MAX,
};

struct inject_event {
        uint32_t kind;
        uint32_t serial;
        uint64_t session;
        uint16_t port;
        uint16_t status; /* of INJECT_ENDED: of the response; INJECT_IN_DOUBT, INJECT_NOT_SENT */
        uint32_t reserved;
        uint64_t bytes; /* of INJECT_ENDED: of the response */
        char method[32];
        char host[INJECT_HOST_SIZE];
        char path[INJECT_PATH_SIZE];               /* without the query */
        char certificate[INJECT_CERTIFICATE_SIZE]; /* of INJECT_READY */
};

/* From the process that has the network: a connection of the session to a host, with two descriptors: the tunnel to the client, and the
 * connected socket of the server. */
struct inject_handed {
        uint16_t port;
        char host[INJECT_HOST_SIZE];
};

/* For the process that has the network, in a sealed memfd. One line for each host, as network.allow has it, and for each placeholder. */
struct inject_list {
        char hosts[INJECT_RULES_MAX * (INJECT_HOST_SIZE + 8)];
        char placeholders[INJECT_SECRETS_MAX * INJECT_PLACEHOLDER_SIZE];
};
