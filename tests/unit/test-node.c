/* Names that lead back to one server of several. */
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/service/node.h"
#include "tests/unit/test.h"

#define DIGITS "0123456789abcdef0123456789abcdef"

static void test_without_a_name_nothing_leads_to_a_node(void)
{
        char minted[NODE_MINTED_MAX + 1];

        check_eq_str(node_name(), "");
        node_mint(minted);
        check_eq_int(strlen(minted), UNGUESSABLE_LENGTH);
        check_eq_int(strspn(minted, "0123456789abcdef"), UNGUESSABLE_LENGTH);
        check_eq_int(node_bond("n2-" DIGITS), NODE_FREE);
        check_eq_int(node_bond("s-" DIGITS), NODE_FREE);
}

static void test_minted_names_begin_with_the_node(void)
{
        char a[NODE_MINTED_MAX + 1], b[NODE_MINTED_MAX + 1];

        node_set_name("n2");
        node_mint(a);
        node_mint(b);
        check_eq_int(strlen(a), strlen("n2-") + UNGUESSABLE_LENGTH);
        check(strncmp(a, "n2-", 3) == 0);
        check(strcmp(a, b) != 0);
        check_eq_int(node_bond(a), NODE_MINTED);

        node_set_name("abcdefghijklmnop");
        node_mint(a);
        check_eq_int(strlen(a), NODE_MINTED_MAX);
        check_eq_int(node_bond(a), NODE_MINTED);
}

static void test_the_form_decides_to_which_node_a_name_belongs(void)
{
        static const struct {
                const char *name;
                enum node_bond bond;
        } rows[] = {
                {"n2-" DIGITS, NODE_MINTED},
                {"n2-" DIGITS "-branch", NODE_CONTINUED},
                {"n2-" DIGITS "-", NODE_CONTINUED},
                {"n1-" DIGITS, NODE_FOREIGN},
                {"n1-" DIGITS "-branch", NODE_FOREIGN},
                {"n22-" DIGITS, NODE_FOREIGN},
                {"n-" DIGITS, NODE_FOREIGN},
                {"s-" DIGITS, NODE_FOREIGN},
                {"work", NODE_FREE},
                {"", NODE_FREE},
                {"-" DIGITS, NODE_FREE},
                {"n2-", NODE_FREE},
                {"n2-work", NODE_FREE},
                {"n2-0123", NODE_FREE},
                {"n2-" DIGITS "0", NODE_FREE},
                {"n2-" DIGITS "x", NODE_FREE},
                {"n2-0123456789ABCDEF0123456789ABCDEF", NODE_FREE},
                {"N2-" DIGITS, NODE_FREE},
                {"n.2-" DIGITS, NODE_FREE},
                {"abcdefghijklmnopq-" DIGITS, NODE_FREE},
        };

        node_set_name("n2");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if ((int)node_bond(rows[i].name) != (int)rows[i].bond)
                        check_eq_str(rows[i].name, "of another bond");
        }
}

static void test_a_lost_name_is_explained(void)
{
        char why[NODE_WHY_MAX];

        node_set_name("abcdefghijklmnop");
        node_why_lost("n1-" DIGITS, why);
        check_has(why, "it was on node \"n1\"");
        check_has(why, "this call came to node \"abcdefghijklmnop\"");
        node_why_lost("abcdefghijklmnop-" DIGITS, why);
        check_has(why, "node \"abcdefghijklmnop\" does not have it");
        check(strlen(why) + 1 < sizeof(why));
}

int main(void)
{
        run(test_without_a_name_nothing_leads_to_a_node);
        run(test_minted_names_begin_with_the_node);
        run(test_the_form_decides_to_which_node_a_name_belongs);
        run(test_a_lost_name_is_explained);
        return 0;
}
