/*
 * Sandboxes of one template wait here until the template's network was checked (network-check.h).
 *
 * The first sandbox is the one that is checked. The answer holds for all sandboxes of the template;
 * those that are made after it pass at once. In a profile that allows a network, each is checked, one after the
 * other, and gets its listener in the same step.
 */
#pragma once

#include "supervisor/monitor/template/network-check.h"
#include "supervisor/monitor/template/sandbox.h"

struct network_gate;

struct network_gate_calls {
        void (*passed)(void *data, struct sandbox *sandbox);
        /* The check failed or found a network. The next sandbox is checked again. */
        void (*refused)(void *data, struct sandbox *sandbox, const struct error *error);
};

/* room: how many sandboxes can wait. */
int network_gate_new(struct child_tasks *tasks, size_t room, const struct network_gate_calls *calls,
                     void *data, struct network_gate **ret, struct error *err);
/* Cancels the check; calls nothing. NULL is allowed. Returns NULL. */
struct network_gate *network_gate_free(struct network_gate *gate);

size_t network_gate_waiting(const struct network_gate *gate);
/* One of the calls follows, now or later. */
void network_gate_add(struct network_gate *gate, struct sandbox *sandbox,
                      enum config_network network);
/* The template has ended: sandboxes that wait are refused with this error, and the next template is
 * checked again. */
void network_gate_reset(struct network_gate *gate, const struct error *error);
