/*
 * Hosts whose connections go through cloister-inject (supervisor/inject/), and placeholders of secrets in what is sent without TLS.
 *
 * The proxy decides, connects, counts and limits as for every host; then it gives the connected socket to cloister-inject, and relays between
 * the client and that process instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/network-rules.h"

struct egress_session;
struct egress_inject;

/* Takes the list (struct inject_list) from a memfd, borrowed, and the session's socket, owned from now on, also if it fails. */
int egress_inject_new(struct egress_inject **ret, int list, int socket, struct error *err);
struct egress_inject *egress_inject_free(struct egress_inject *inject);

/* NULL: the session has no such hosts. */
bool egress_inject_has(const struct egress_inject *inject, const struct network_host *host,
                       uint16_t port);
/* Whether bytes contain a placeholder, or a form of it. `tail` has the end of the bytes before, and gets the end of these. */
struct egress_tail {
        size_t n;
        char bytes[512];
};
bool egress_inject_finds(const struct egress_inject *inject, struct egress_tail *tail,
                         const char *data, size_t n);
/* Hands the server's socket over, which is closed in any case. Returns the tunnel in its place, or negative errno: cloister-inject has ended. */
int egress_inject_hand(const struct egress_inject *inject, const struct network_host *host,
                       uint16_t port, int server);
