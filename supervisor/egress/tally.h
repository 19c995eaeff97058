/* Counts bytes and requests by host in the page of a session. */
#pragma once

#include "supervisor/egress/session.h"

enum { TALLY_NONE = -1 };

/* A connection counts in the slot of this host until tally_leave(). */
int tally_enter(struct egress_session *session, const char *host, uint16_t port);
void tally_leave(struct egress_session *session, int slot);

void tally_bytes(struct egress_session *session, int slot, bool is_in, size_t n);
/* A refusal or a failure. host: "" if it is not known. */
void tally_refused(struct egress_session *session, const char *host, uint16_t port,
                   enum egress_reason why);
