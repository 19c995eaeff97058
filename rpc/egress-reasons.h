/* Why the process that has the network refused a request, or why it failed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum egress_reason {
        EGRESS_FINE,
        EGRESS_NOT_NAMED,   /* no rule names this host and port */
        EGRESS_NOT_PUBLIC,  /* the name has no address that may be reached */
        EGRESS_OTHER_NAME,  /* Host or TLS's server name is another one */
        EGRESS_NO_NAME,     /* TLS without a server name, or with an encrypted one */
        EGRESS_NOT_TLS,     /* on port 443 */
        EGRESS_MALFORMED,   /* a request that has two readings, or none */
        EGRESS_USED_UP,     /* max_bytes */
        EGRESS_UNKNOWN,     /* from here on no denial: the name has no address */
        EGRESS_UNREACHABLE, /* no address answers */
        EGRESS_LATE,        /* a deadline */
        EGRESS_REASON_MAX,
};

/* A clause without the host before it; "%s" in it is the profile. */
const char *egress_reason_text(enum egress_reason reason);
/* Writes "HOST:PORT CLAUSE". */
void egress_reason_print(char *to, size_t size, const char *host, unsigned port,
                         enum egress_reason reason, const char *profile);

static inline bool egress_is_denial(enum egress_reason reason)
{
        return reason > EGRESS_FINE && reason < EGRESS_UNKNOWN;
}
