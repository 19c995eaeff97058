/* Rules of our own processes. */
#pragma once

#include "policy/seccomp/rule.h"

extern const struct filter_rule filter_init_all[];
extern const struct filter_rule filter_stub_all[];
extern const struct filter_rule filter_reader_all[];
extern const struct filter_rule filter_broker_calls[];
extern const struct filter_rule filter_broker_arguments[];
extern const struct filter_rule filter_broker_alone[];
extern const struct filter_rule filter_egress_calls[];
extern const struct filter_rule filter_internet[]; /* of broker and egress: sockets and connect() */
