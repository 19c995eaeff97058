/* The listener of a session: accepts connections until the session's pipe ends. */
#pragma once

#include "supervisor/egress/session.h"

/* Takes ownership of the descriptors. An error ends nothing: the session has no network. */
int egress_session_open(struct egress *egress, const int fds[EGRESS_FDS], struct error *err);
