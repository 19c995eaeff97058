/* Connects to one of the addresses of an answer that may be reached, one after the other. */
#pragma once

#include "supervisor/egress/resolver.h"
#include "supervisor/egress/session.h"

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
