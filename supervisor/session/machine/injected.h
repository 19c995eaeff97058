/* The secrets with "to" of a session: its placeholders, and its place in the process that has the values. */
#pragma once

#include "base/error.h"
#include "supervisor/session/machine/inject-requests.h"

struct session;

void injected_init(struct session_injected *injected);
void injected_done(struct session *session);
/* A branch has the placeholders of the session that it begins with: its memory has them. */
void injected_inherit(struct session *to, const struct session *from);
/* Of a new sandbox. Returns 0, also if its profile has none of these secrets, or negative errno. */
int injected_open(struct session *session, struct error *err);
/* For struct egress_open: the socket, which the caller closes, and the list, borrowed. Returns 0: there is nothing; 2; negative errno. */
int injected_connect(struct session *session, int ret[2], struct error *err);
/* Sends the placeholders and the certificate to the worker. */
void injected_tell(struct session *session);
