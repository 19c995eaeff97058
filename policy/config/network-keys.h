/* "network" of a profile: the hosts that code may reach, and those whose requests are read (docs/network.md). */
#pragma once

#include "policy/config/reader.h"

config_code_fn config_read_network, config_read_hosts;

enum { CONFIG_HOST_SIZE = 264 /* "HOST:PORT" with a NUL */ };

/* Prints an entry of network.allow that is one name as "HOST:PORT", with port 443 if it has none. False: it is not one name. */
bool config_host_print(const char *entry, char ret[CONFIG_HOST_SIZE]);
/* Whether requests to the host of an entry, or to "HOST:PORT", are read. */
bool config_inspects(const struct config_egress *egress, const char *entry);
/* Adds the hosts that `bound` inspects to those of `to`, as far as its entries allow them. Returns 0 or -ENOMEM. */
int config_inspect_also(const struct config_egress *bound, struct config_egress *to);
