/*
 * The lease of a node on the names of sessions that clients chose (docs/service.md, "Several hosts").
 *
 * A balancer that cannot reach a node for long sends such a name to another node, where the session begins anew. The first
 * node has then older variables under that name, and must never continue with them. It cannot know what a balancer did; but
 * it knows when a balancer's checks have reached it. If none did for the time of the lease, which is shorter than a balancer
 * waits, the sessions with chosen names are lost. Minted names (node.h) exist on one node only and stay.
 *
 * Each address that checks has its own lease, because each balancer decides for itself. An address without a check for
 * the time of the lease costs the names once, and is forgotten. While no address is known, no chosen name is kept from one call to the next;
 * after the start, the time of one lease passes before that.
 *
 * The time includes that in which the machine was suspended. A gap counts although a check comes before the next call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "policy/network-rules.h"

enum {
        LEASE_ADDRESSES_MAX =
                16, /* of balancers; one more takes the place of the longest unused, whose lease ends */
        LEASE_WHY_MAX = 200,
};

/* Once, at the start. balancers: whose checks count; copied. n 0: there is no lease, and nothing is ever lost. */
void lease_start(const struct network_rule *balancers, size_t n, uint32_t ms);

/* A check came from this address. False: it is not one of a balancer, and renews nothing. */
bool lease_note_check(const struct sockaddr *from);

/* Whether the chosen names that exist now may live elsewhere since the last such question. why: a clause for a person. */
bool lease_take_loss(char why[LEASE_WHY_MAX]);
