/* The session that a request over the control socket names. */
#pragma once

#include "supervisor/broker/control.h"
#include "supervisor/session/session.h"

/* Finds the session of the member "name", which must have a sandbox. key: may be NULL; points into params. Returns -EINVAL or -ENOENT
 * with an error. */
int control_session(const struct control *control, yyjson_val *params, const char **key,
                    struct session **ret, struct error *err);
