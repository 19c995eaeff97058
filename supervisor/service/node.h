/*
 * The name of this server among several (docs/service.md, "Several hosts"), and the names that it makes.
 *
 * A balancer chooses a server before the name of a session, a task or a client exists, so that no hash of that name
 * leads back to it. Therefore the names that a server makes begin with its own, and a balancer reads only that.
 *
 * A name of this form, "NODE-" and 32 hexadecimal digits, exists on that node only: no other one may make it. So does
 * a name that continues it, "NODE-…-TEXT", which a client may choose for a branch: it gets to the same node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/unguessable.h"
#include "policy/node-name.h"

enum { NODE_MINTED_MAX = NODE_NAME_MAX + 1 + UNGUESSABLE_LENGTH };

/* Before the first name is made. name: node_name_valid(), or "". */
void node_set_name(const char *name);
/* "" if the server has none. */
const char *node_name(void);

/* Writes a name that cannot be guessed: 32 hexadecimal digits, behind "NODE-" if the server has a name. */
void node_mint(char ret[NODE_MINTED_MAX + 1]);

enum node_bond {
        NODE_FREE,      /* a client chose it, or this server has no name */
        NODE_MINTED,    /* of this node */
        NODE_CONTINUED, /* a client continued such a name of this node */
        NODE_FOREIGN,   /* of another node, or continued from such a name */
};
/* Which node a name belongs to. */
enum node_bond node_bond(const char *name);

enum { NODE_WHY_MAX = 160 };
/* Why this node does not have a minted or foreign name, as a clause. */
void node_why_lost(const char *name, char ret[NODE_WHY_MAX]);
