/* Rules of the processes that run code of the guest: worker and template. */
#pragma once

#include "policy/seccomp/rule.h"

extern const struct filter_rule filter_guest_calls[];     /* worker and template */
extern const struct filter_rule filter_guest_arguments[]; /* worker and template */
/* Mappings and memfds: one of these. */
extern const struct filter_rule filter_memory_all[];
extern const struct filter_rule filter_memory_counted[];
extern const struct filter_rule filter_worker_only[];
extern const struct filter_rule filter_template_only[];
extern const struct filter_rule filter_template_loopback[]; /* beside filter_template_only */

/* Which sockets worker and template may make: one of these. */
extern const struct filter_rule filter_sockets_unix[];
extern const struct filter_rule filter_sockets_loopback[];       /* and of the internet families */
extern const struct filter_rule filter_sockets_pairs[];          /* none with a name */
extern const struct filter_rule filter_sockets_loopback_pairs[]; /* the internet families only */
extern const struct filter_rule
        filter_socket_options[]; /* what worker, template and broker may set */
