/* Counts sessions and cells. */
#include "supervisor/session/machine/tally.h"

#include <assert.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/service/metrics.h"
#include "supervisor/session/machine/machine.h"

static const char *origin_of(const struct session *s, enum session_state before)
{
        const struct cell *first = s->queue.first;

        if (first && first->kind == CELL_LOAD)
                return "branch";
        return before == SESSION_CREATING ? "request" : "pool";
}

static const char *end_of(const struct session *s)
{
        static const char *const names[] = {
                [END_NONE] = "exit",     [END_TIMEOUT] = "timeout", [END_CANCELLED] = "cancelled",
                [END_RESET] = "reset",   [END_IDLE] = "idle",       [END_PROTOCOL] = "protocol",
                [END_CLOSED] = "closed", [END_OWNER] = "owner",
        };
        static_assert(ARRAY_SIZE(names) == SESSION_END_MAX, "a name for each end");

        return s->yields ? "place" : s->frees_memory ? "memory" : names[s->end];
}

void tally_session(struct session *s, enum session_state before)
{
        const struct cell *first = s->queue.first;

        if (before < SESSION_IDLE && s->state >= SESSION_IDLE) {
                s->seen.memory = s->seen.cpu_us = 0;
                metrics_add(METRIC_SESSIONS_CREATED, 1, origin_of(s, before));
                if (first)
                        metrics_observe(METRIC_SESSION_START,
                                        (double)(clock_us() - first->asked_us) / 1e6);
        }
        if (before >= SESSION_IDLE && s->state == SESSION_NONE)
                metrics_add(METRIC_SESSIONS_ENDED, 1, end_of(s));
}

void tally_cell(const struct session *s, const struct cell *cell)
{
        const struct cell_outcome *o = &cell->outcome;
        double cpu = (double)o->cpu_us / 1e6;

        if (cell->kind != CELL_CODE || cell->request.is_probe)
                return;
        metrics_add(METRIC_CELLS, 1, cell_status_name(o->status));
        if (cell->number == 0)
                return;
        metrics_add(METRIC_CELL_CPU, cpu);
        metrics_add(METRIC_SESSION_STATE, 1, cell_state_name(o->state));
        if (s->principal->key[0]) {
                metrics_add(METRIC_PRINCIPAL_CELLS, 1, s->principal->key);
                metrics_add(METRIC_PRINCIPAL_CPU, cpu, s->principal->key);
        }
}
