/*
 * Between the broker and the process that has the network (supervisor/egress/egress.h): a message of fixed size for
 * each session, with three descriptors or five, and a page of memory that both have.
 *
 * The broker writes the policy into the page before it sends it, and reads the counts from it. It reads them with
 * pread(2), so that what the other process does to the page is data and nothing else.
 *
 * A message without descriptors asks whether the process runs. The process sends one byte to the broker when it is
 * ready, and one in answer to each of these.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why the process refused a request, or why it failed. */
enum egress_reason {
        EGRESS_FINE,
        EGRESS_NOT_NAMED,   /* no rule names this host and port */
        EGRESS_NOT_PUBLIC,  /* the name has no address that may be reached */
        EGRESS_OTHER_NAME,  /* Host or TLS's server name is another one */
        EGRESS_NO_NAME,     /* TLS without a server name, or with an encrypted one */
        EGRESS_NOT_TLS,     /* on port 443 */
        EGRESS_NOT_READ,    /* to a host whose requests are read, without TLS */
        EGRESS_MALFORMED,   /* a request that has two readings, or none */
        EGRESS_USED_UP,     /* max_bytes */
        EGRESS_RULE,        /* a rule about @network.connect denies it, or asks */
        EGRESS_PLACEHOLDER, /* the placeholder of a secret in a request without TLS */
        EGRESS_UNKNOWN,     /* from here on no denial: the name has no address */
        EGRESS_UNREACHABLE, /* no address answers */
        EGRESS_LATE,        /* a deadline */
        EGRESS_NO_READER, /* a host of a secret or with "inspect", and cloister-inject has ended */
        EGRESS_REASON_MAX,
};

/* Writes "HOST:PORT CLAUSE". */
void egress_reason_print(char *to, size_t size, const char *host, unsigned port,
                         enum egress_reason reason, const char *profile);

static inline bool egress_is_denial(enum egress_reason reason)
{
        return reason > EGRESS_FINE && reason < EGRESS_UNKNOWN;
}

enum {
        EGRESS_PORT = 3128, /* of the proxy, on 127.0.0.1 of each session */

        /* Descriptors of struct egress_open, in this order. */
        EGRESS_FD_LISTENER = 0, /* in the session's network namespace */
        EGRESS_FD_PAGE,         /* a memfd of sizeof(struct egress_page) that cannot be resized */
        EGRESS_FD_LEASH,        /* a pipe: its end of file ends the session's connections */
        EGRESS_FDS,
        /* Of a session with secrets for hosts, two more: */
        EGRESS_FD_INJECT = EGRESS_FDS, /* its pair with cloister-inject (rpc/inject-messages.h) */
        EGRESS_FD_INJECT_LIST,         /* a sealed memfd with struct inject_list */
        EGRESS_FDS_MAX,

        EGRESS_RULES_SIZE = 17408,
        EGRESS_HOSTS_MAX = 64, /* of a session, in the page */
        EGRESS_CALL_RULES_SIZE = 16384,
};

struct egress_open {
        uint64_t reserved;
};

struct egress_policy {
        char profile[80];
        uint64_t principal;            /* a number; 0: there is only one */
        uint64_t max_bytes;            /* of both directions */
        uint64_t rate;                 /* bytes a second; 0: no limit */
        char rules[EGRESS_RULES_SIZE]; /* of network.allow, one per line */
        char call_rules
                [EGRESS_CALL_RULES_SIZE]; /* texts of rules that can match @network.connect, one per line */
};

/* Bytes and requests of one host and port. in: from the host. */
struct egress_sums {
        uint64_t in, out, requests, denied;
};

struct egress_count {
        uint32_t id; /* grows; 0: the slot is empty. A slot may get another host later */
        uint16_t port;
        uint8_t why; /* enum egress_reason, of the last refusal or failure */
        uint8_t reserved;
        struct egress_sums sums;
        char host[256];
};

struct egress_page {
        struct egress_policy policy;
        struct egress_sums all;
        struct egress_count hosts[EGRESS_HOSTS_MAX];
};
static_assert(sizeof(struct egress_page) < 56 * 1024, "one pread() per cell");
