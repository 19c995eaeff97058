/* The name of this server, and names that lead back to it. */
#include "supervisor/service/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static char own_name[NODE_NAME_MAX + 1];

void node_set_name(const char *name)
{
        assert(*name == '\0' || node_name_valid(name, strlen(name)));
        snprintf(own_name, sizeof(own_name), "%s", name);
}

const char *node_name(void)
{
        return own_name;
}

void node_mint(char ret[NODE_MINTED_MAX + 1])
{
        int n = *own_name ? snprintf(ret, NODE_NAME_MAX + 2, "%s-", own_name) : 0;

        unguessable(ret + n);
}

/* The length of the node's name in a name of this form, or 0. */
static size_t prefix_of(const char *name)
{
        size_t n = strcspn(name, "-");

        if (name[n] != '-' || !node_name_valid(name, n))
                return 0;
        const char *digits = name + n + 1;
        size_t n_digits = strspn(digits, "0123456789abcdef");
        bool ends = digits[n_digits] == '\0' || digits[n_digits] == '-';
        return n_digits == UNGUESSABLE_LENGTH && ends ? n : 0;
}

enum node_bond node_bond(const char *name)
{
        size_t n = *own_name ? prefix_of(name) : 0;

        if (n == 0)
                return NODE_FREE;
        if (n != strlen(own_name) || memcmp(name, own_name, n) != 0)
                return NODE_FOREIGN;
        return name[n + 1 + UNGUESSABLE_LENGTH] == '\0' ? NODE_MINTED : NODE_CONTINUED;
}

void node_why_lost(const char *name, char ret[NODE_WHY_MAX])
{
        if (node_bond(name) == NODE_FOREIGN)
                snprintf(
                        ret, NODE_WHY_MAX,
                        "it was on node \"%.*s\", which may have ended, and this call came to node \"%s\"",
                        (int)prefix_of(name), name, own_name);
        else
                snprintf(
                        ret, NODE_WHY_MAX,
                        "node \"%s\" does not have it: it has ended, or the server was started again",
                        own_name);
}
