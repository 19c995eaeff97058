/* Sandboxes that wait for the check of their template's network. */
#include "supervisor/monitor/template/network-gate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum gate_state { GATE_UNCHECKED, GATE_CHECKING, GATE_OPEN };

struct network_gate {
        struct child_tasks *tasks;
        const struct network_gate_calls *calls;
        void *data;
        enum gate_state state;
        enum config_network network;
        struct network_check *check;
        struct sandbox **waiting;
        size_t n_waiting, room;
};

int network_gate_new(struct child_tasks *tasks, size_t room, const struct network_gate_calls *calls,
                     void *data, struct network_gate **ret, struct error *err)
{
        struct network_gate *gate = calloc(1, sizeof(*gate));

        if (gate)
                *gate = (struct network_gate){.tasks = tasks,
                                              .calls = calls,
                                              .data = data,
                                              .waiting = calloc(room, sizeof(struct sandbox *)),
                                              .room = room};
        if (!gate || !gate->waiting) {
                free(gate);
                return error_errno(err, ENOMEM, "network check");
        }
        *ret = gate;
        return 0;
}

struct network_gate *network_gate_free(struct network_gate *gate)
{
        if (!gate)
                return NULL;
        network_check_cancel(gate->check);
        free(gate->waiting);
        free(gate);
        return NULL;
}

size_t network_gate_waiting(const struct network_gate *gate)
{
        return gate->n_waiting;
}

static void refuse_all(struct network_gate *gate, const struct error *error)
{
        size_t n = gate->n_waiting;

        gate->state = GATE_UNCHECKED;
        gate->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                gate->calls->refused(gate->data, gate->waiting[i], error);
}

static void check_first(struct network_gate *gate);

static struct sandbox *take_first(struct network_gate *gate)
{
        struct sandbox *first = gate->waiting[0];

        gate->n_waiting--;
        memmove(gate->waiting, gate->waiting + 1, gate->n_waiting * sizeof(struct sandbox *));
        return first;
}

/* Each session needs its own listener. */
static void pass_one(struct network_gate *gate, int listener)
{
        struct sandbox *first = take_first(gate);

        gate->state = GATE_UNCHECKED;
        sandbox_set_listener(first, listener);
        gate->calls->passed(gate->data, first);
        if (gate->n_waiting > 0 && gate->state == GATE_UNCHECKED)
                check_first(gate);
}

static void on_checked(void *data, const struct error *error, int listener)
{
        struct network_gate *gate = data;
        size_t n = gate->n_waiting;

        gate->check = NULL;
        if (error) {
                struct error failed = *error;
                error_context(&failed, "the sandbox's network");
                refuse_all(gate, &failed);
                return;
        }
        if (listener >= 0) {
                pass_one(gate, listener);
                return;
        }
        gate->state = GATE_OPEN;
        gate->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                gate->calls->passed(gate->data, gate->waiting[i]);
}

static void check_first(struct network_gate *gate)
{
        struct error error = {};

        gate->state = GATE_CHECKING;
        if (network_check_start(gate->tasks, sandbox_pid(gate->waiting[0]), gate->network,
                                on_checked, gate, &gate->check, &error) < 0)
                on_checked(gate, &error, -1);
}

void network_gate_add(struct network_gate *gate, struct sandbox *sandbox,
                      enum config_network network)
{
        if (gate->state == GATE_OPEN) {
                gate->calls->passed(gate->data, sandbox);
                return;
        }
        assert(gate->n_waiting < gate->room);
        gate->waiting[gate->n_waiting++] = sandbox;
        gate->network = network;
        if (gate->state == GATE_UNCHECKED)
                check_first(gate);
}

void network_gate_reset(struct network_gate *gate, const struct error *error)
{
        gate->check = network_check_cancel(gate->check);
        refuse_all(gate, error);
}
