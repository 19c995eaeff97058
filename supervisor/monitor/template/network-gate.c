/* Sandboxes that wait for the check of their template's network. */
#include "supervisor/monitor/template/network-gate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum gate_state { GATE_UNCHECKED, GATE_CHECKING, GATE_OPEN };

struct network_gate {
        struct child_tasks *tasks;
        const struct network_gate_calls *calls;
        void *data;
        enum gate_state state;
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

static void on_checked(void *data, const struct error *error)
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
        gate->state = GATE_OPEN;
        gate->n_waiting = 0;
        for (size_t i = 0; i < n; i++)
                gate->calls->passed(gate->data, gate->waiting[i]);
}

void network_gate_add(struct network_gate *gate, struct sandbox *sandbox,
                      enum config_network network)
{
        struct error error = {};

        if (gate->state == GATE_OPEN) {
                gate->calls->passed(gate->data, sandbox);
                return;
        }
        assert(gate->n_waiting < gate->room);
        gate->waiting[gate->n_waiting++] = sandbox;
        if (gate->state == GATE_CHECKING)
                return;
        gate->state = GATE_CHECKING;
        if (network_check_start(gate->tasks, sandbox_pid(sandbox), network, on_checked, gate,
                                &gate->check, &error) < 0)
                on_checked(gate, &error);
}

void network_gate_reset(struct network_gate *gate, const struct error *error)
{
        gate->check = network_check_cancel(gate->check);
        refuse_all(gate, error);
}
