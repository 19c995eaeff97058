/* Starts the process of a template in its stub's namespaces. */
#pragma once

#include "base/error.h"
#include "supervisor/monitor/children.h"
#include "supervisor/monitor/stub.h"

/* Returns its pid, registered as a child of ours. control: the template's end of its socket, init: sealed memfd
 * (both borrowed). */
pid_t template_launch(const struct stub *stub, struct children *children, int control, int init,
                      struct error *err);
