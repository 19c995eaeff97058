/*
 * Looks names up in threads, with getaddrinfo(3): /etc/hosts, /etc/nsswitch.conf and /etc/resolv.conf count as for other
 * programs. Names are absolute: no search domain is appended.
 *
 * A session uses at most RESOLVER_EACH of the threads at a time, and principals share them, so that names whose servers
 * never answer delay only the session that requested them.
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "policy/network-rules.h"
#include "supervisor/egress/session.h"

enum { RESOLVER_THREADS = 8, RESOLVER_EACH = 2, RESOLVER_ADDRESSES_MAX = 8 };

struct resolver;
struct resolver_job;

struct resolver_answer {
        struct sockaddr_storage addresses[RESOLVER_ADDRESSES_MAX]; /* with the port */
        size_t n;                                                  /* 0: there is no such name */
};

typedef void resolver_done(void *data, const struct resolver_answer *answer);

int resolver_new(struct resolver **ret, struct event_base *base, struct error *err);

/* done() is called once, later, from the event loop; the job was freed before. NULL: no memory. */
struct resolver_job *resolver_ask(struct resolver *resolver, const struct egress_session *session,
                                  const char *name, uint16_t port, resolver_done *done, void *data);
/* done() is not called. NULL is allowed. Returns NULL. */
struct resolver_job *resolver_cancel(struct resolver_job *job);

/* ---- connects to one of the addresses of an answer that may be reached, one after the other ---- */

enum { DIAL_MS = 5000 }; /* for each address */

struct dial;

/* fd: connected, owned by the callee; negative: *why. The dial was freed before the call. */
typedef void dial_done(void *data, int fd, enum egress_reason why);

/* Removes the addresses that may not be reached: also those of this machine, unless a rule contains them. */
void dial_filter(const struct egress_session *session, uint16_t port,
                 struct resolver_answer *answer);

/* Calls done() later. The answer must not be empty. NULL: no memory. */
struct dial *dial_start(struct event_base *base, const struct resolver_answer *answer,
                        dial_done *done, void *data);
struct dial *dial_cancel(struct dial *dial);
