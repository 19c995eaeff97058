/* "node": the name of one server among several, and the lease on names that clients chose (docs/service.md). */
#pragma once

#include "policy/config/reader.h"
#include "policy/network-rules.h"
#include "policy/node-name.h"

/* The functions of the rows of CONFIG_NODE (codes.def). */
config_code_fn config_read_node, config_check_node_name, config_check_balancers;

/* The node of a later file, if it has one, replaces that of earlier ones. */
void config_merge_node(struct config *config, struct config *file);

/* The port in the rules of balancers, because network_rules_contain() compares it. */
enum { CONFIG_BALANCER_PORT = 1 };

/* An entry of "balancers". False: it is not an address or a range of addresses. */
bool config_balancer_parse(const char *text, struct network_rule *ret);

/* The name with ${VAR} expanded; "" if the config has none. An error names the variable, or the rule of such names. */
int config_node_name(const struct config *config, const char *(*lookup)(const char *name),
                     char ret[NODE_NAME_MAX + 1], struct error *err);
