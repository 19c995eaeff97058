/* The lease on names that clients chose. */
#include "supervisor/service/lease.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/config/node-keys.h"
#include "supervisor/service/node.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { LEASE_MS = 5000 };

static char why[LEASE_WHY_MAX];

static bool check_from(const char *text)
{
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        struct sockaddr_in v4 = {.sin_family = AF_INET};

        if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
                return lease_note_check((const struct sockaddr *)&v4);
        check_eq_int(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        return lease_note_check((const struct sockaddr *)&v6);
}

static void start(void)
{
        static const char *const texts[] = {"10.0.0.0/24", "127.0.0.1", "[fd00::5]"};
        struct network_rule rules[ARRAY_SIZE(texts)];

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                check(config_balancer_parse(texts[i], &rules[i]));
        node_set_name("n2");
        lease_start(rules, ARRAY_SIZE(rules), LEASE_MS);
}

static void test_only_balancers_renew(void)
{
        const struct sockaddr local = {.sa_family = AF_UNIX};

        start();
        check(check_from("10.0.0.5"));
        check(check_from("10.0.0.255"));
        check(check_from("::ffff:10.0.0.5"));
        check(check_from("127.0.0.1"));
        check(check_from("fd00::5"));
        check(!check_from("10.0.1.5"));
        check(!check_from("127.0.0.2"));
        check(!check_from("fd00::6"));
        check(!check_from("::ffff:10.0.1.5"));
        check(!check_from("::10.0.0.5"));
        check(!lease_note_check(&local));
}

static void test_names_stay_while_checks_come(void)
{
        start();
        for (int i = 0; i < 100; i++) {
                check(check_from("10.0.0.5"));
                fake_clock_advance_ms(LEASE_MS - 100);
                check(!lease_take_loss(why));
        }
}

static void test_a_gap_costs_the_names(void)
{
        start();
        check_from("10.0.0.5");
        fake_clock_advance_ms(7000);
        check(lease_take_loss(why));
        check_has(why, "no check of the balancer had reached node \"n2\" for 7.0 s");
        check_from("10.0.0.5");
        check(lease_take_loss(why)); /* of what that call has made */
        check(!lease_take_loss(why));
}

static void test_a_gap_counts_although_a_check_comes_first(void)
{
        start();
        check_from("10.0.0.5");
        fake_clock_advance_ms(7000);
        check_from("10.0.0.5");
        check_from("10.0.0.5");
        check(lease_take_loss(why));
        check_has(why, "7.0 s");
        check(!lease_take_loss(why));
}

static void test_another_address_renews_nothing(void)
{
        start();
        check_from("10.0.0.5");
        fake_clock_advance_ms(4000);
        check(!check_from("192.168.0.1"));
        fake_clock_advance_ms(2000);
        check(lease_take_loss(why));
}

static void test_each_balancer_has_its_own_lease(void)
{
        start();
        check_from("10.0.0.5");
        check_from("10.0.0.6");
        fake_clock_advance_ms(4000);
        check_from("10.0.0.6");
        check(!lease_take_loss(why));
        fake_clock_advance_ms(2000);
        check_from("10.0.0.6");
        check(lease_take_loss(why)); /* the first one may have moved them */
        for (int i = 0; i < 5; i++) {
                fake_clock_advance_ms(4000);
                check_from("10.0.0.6");
                check(!lease_take_loss(why)); /* it is forgotten */
        }
}

static void test_without_checks_no_name_is_kept(void)
{
        start();
        fake_clock_advance_ms(LEASE_MS - 100);
        check(!lease_take_loss(why));
        fake_clock_advance_ms(200);
        check(lease_take_loss(why));
        check(lease_take_loss(why));
        check_from("10.0.0.5");
        check(lease_take_loss(why)); /* since the last call */
        check(!lease_take_loss(why));
}

static void test_addresses_are_bounded(void)
{
        char text[32];

        start();
        for (int i = 0; i < LEASE_ADDRESSES_MAX; i++) {
                snprintf(text, sizeof(text), "10.0.0.%d", i);
                check(check_from(text));
        }
        check(!lease_take_loss(why));
        check(check_from("10.0.0.200"));
        check(lease_take_loss(why));
}

static void test_without_balancers_there_is_no_lease(void)
{
        lease_start(NULL, 0, LEASE_MS);
        check(!check_from("10.0.0.5"));
        fake_clock_advance_ms(3600 * 1000);
        check(!lease_take_loss(why));
}

int main(void)
{
        fake_clock_stop(true);
        run(test_only_balancers_renew);
        run(test_names_stay_while_checks_come);
        run(test_a_gap_costs_the_names);
        run(test_a_gap_counts_although_a_check_comes_first);
        run(test_another_address_renews_nothing);
        run(test_each_balancer_has_its_own_lease);
        run(test_without_checks_no_name_is_kept);
        run(test_addresses_are_bounded);
        run(test_without_balancers_there_is_no_lease);
        return 0;
}
