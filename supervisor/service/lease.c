/* The lease of a node on the names that clients chose. */
#include "supervisor/service/lease.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "policy/config/node-keys.h"
#include "supervisor/service/node.h"

struct lease_address {
        struct in6_addr address; /* an IPv4 address is mapped */
        uint64_t checked_us;     /* by clock_boot_us() */
};

static struct {
        struct network_rule balancers[CONFIG_BALANCERS_MAX];
        size_t n_balancers;
        uint64_t lease_us;
        uint64_t ended_us; /* the last time that a lease was valid */
        struct lease_address addresses[LEASE_ADDRESSES_MAX];
        size_t n;
        bool is_lost;    /* and lease_take_loss() has not returned it */
        uint64_t gap_us; /* the longest of such a loss */
        bool is_told;    /* in the log: no lease is valid */
} lease;

void lease_start(const struct network_rule *balancers, size_t n, uint32_t ms)
{
        assert(n <= ARRAY_SIZE(lease.balancers));
        memset(&lease, 0, sizeof(lease));
        if (n > 0)
                memcpy(lease.balancers, balancers, n * sizeof(*balancers));
        lease.n_balancers = n;
        lease.lease_us = (uint64_t)ms * 1000;
        lease.ended_us = clock_boot_us();
}

/* An IPv6 socket shows an IPv4 client as a mapped address. */
static bool is_balancer(const struct in6_addr *address)
{
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = *address};
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        bool is_mapped = IN6_IS_ADDR_V4MAPPED(address);

        memcpy(&v4.sin_addr, address->s6_addr + 12, sizeof(v4.sin_addr));
        return network_rules_contain(lease.balancers, lease.n_balancers,
                                     is_mapped ? (const struct sockaddr *)&v4
                                               : (const struct sockaddr *)&v6,
                                     CONFIG_BALANCER_PORT);
}

static bool take_address(const struct sockaddr *from, struct in6_addr *ret)
{
        *ret = (struct in6_addr){};
        if (from->sa_family == AF_INET6) {
                *ret = ((const struct sockaddr_in6 *)from)->sin6_addr;
        } else if (from->sa_family == AF_INET) {
                ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
                memcpy(ret->s6_addr + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
        } else {
                return false;
        }
        return true;
}

static void lose(uint64_t gap_us)
{
        lease.is_lost = true;
        if (gap_us > lease.gap_us)
                lease.gap_us = gap_us;
}

static void forget(size_t i)
{
        lease.addresses[i] = lease.addresses[--lease.n];
}

/* Ends the leases whose time is over. */
static void expire(uint64_t now)
{
        for (size_t i = lease.n; i-- > 0;) {
                uint64_t gap = now - lease.addresses[i].checked_us;
                if (gap <= lease.lease_us)
                        continue;
                lose(gap);
                if (lease.addresses[i].checked_us > lease.ended_us)
                        lease.ended_us = lease.addresses[i].checked_us;
                forget(i);
        }
        bool is_over = lease.n == 0 && now - lease.ended_us > lease.lease_us;
        if (is_over)
                lose(now - lease.ended_us);
        if (is_over && !lease.is_told)
                log_warning(
                        "no check of a balancer (/readyz?lease) has come for %.1f s: sessions whose names clients chose are lost",
                        (double)(now - lease.ended_us) / 1e6);
        lease.is_told = is_over;
}

static struct lease_address *find(const struct in6_addr *address)
{
        for (size_t i = 0; i < lease.n; i++) {
                if (memcmp(&lease.addresses[i].address, address, sizeof(*address)) == 0)
                        return &lease.addresses[i];
        }
        return NULL;
}

static size_t oldest(void)
{
        size_t found = 0;

        for (size_t i = 1; i < lease.n; i++) {
                if (lease.addresses[i].checked_us < lease.addresses[found].checked_us)
                        found = i;
        }
        return found;
}

bool lease_note_check(const struct sockaddr *from)
{
        struct in6_addr address;
        uint64_t now = clock_boot_us();

        if (!take_address(from, &address) || !is_balancer(&address))
                return false;
        expire(now);
        struct lease_address *known = find(&address);
        if (known) {
                known->checked_us = now;
                return true;
        }
        if (lease.n == LEASE_ADDRESSES_MAX) {
                lose(now - lease.addresses[oldest()].checked_us);
                forget(oldest());
        }
        lease.addresses[lease.n++] = (struct lease_address){address, now};
        return true;
}

bool lease_take_loss(char why[LEASE_WHY_MAX])
{
        if (lease.n_balancers == 0)
                return false;
        expire(clock_boot_us());
        if (!lease.is_lost)
                return false;
        snprintf(
                why, LEASE_WHY_MAX,
                "no check of the balancer had reached node \"%s\" for %.1f s, so this name may have been used on another node",
                node_name(), (double)lease.gap_us / 1e6);
        lease.is_lost = false;
        lease.gap_us = 0;
        return true;
}
