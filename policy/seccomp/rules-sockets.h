/* Rules of sockets. */
#pragma once

#include "policy/seccomp/rule.h"

/* Which sockets worker and template may make: one of these. */
extern const struct filter_rule filter_sockets_unix[];
extern const struct filter_rule filter_sockets_loopback[];       /* and of the internet families */
extern const struct filter_rule filter_sockets_pairs[];          /* none with a name */
extern const struct filter_rule filter_sockets_loopback_pairs[]; /* the internet families only */
extern const struct filter_rule
        filter_socket_options[]; /* what worker, template and broker may set */
