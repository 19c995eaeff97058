/* Gathers the facts of the events of sessions and cells. */
#include "supervisor/session/machine/session-events.h"

#include "base/clock.h"
#include "supervisor/service/event.h"
#include "supervisor/session/machine/machine.h"

static const char *profile_of(const struct session *s)
{
        return s->profile ? s->profile->name : "";
}

void session_tell_cell_begin(const struct session *s, const struct cell *cell)
{
        if (!event_is_on())
                return;
        const char *code = cell->payload.length > 0 ? buffer_bytes(&cell->payload) : "";
        const struct event_cell_begin event = {
                .ids = session_log_ids(s, cell),
                .code = code,
                .code_length = cell->payload.length > 0 ? cell->code_length : 0,
                .profile = profile_of(s),
                .attempt = cell->attempts + 1,
        };
        event_cell_begin(&event);
}

/* Calls that were sent, those among them that have no answer too. */
static size_t take_tools(const struct cell_outcome *o, struct event_tool to[CELL_CALLS_KEPT])
{
        size_t n = 0;

        for (size_t i = 0; i < o->n_calls; i++) {
                const struct cell_call *call = &o->calls[i];
                if (!call->used)
                        continue;
                to[n++] = (struct event_tool){call->server, call->tool, call->ok,
                                              call->pending ? clock_us() - call->started_us
                                                            : call->duration_us};
        }
        return n;
}

void session_tell_cell_end(const struct session *s, const struct cell *cell)
{
        const struct cell_outcome *o = &cell->outcome;
        struct event_tool tools[CELL_CALLS_KEPT] _uninitialized_;

        if (!event_is_on())
                return;
        const struct event_cell_end event = {
                .ids = session_log_ids(s, cell),
                .status = cell_status_name(o->status),
                .state = cell_state_name(o->state),
                .why = o->why,
                .duration_us = o->duration_us,
                .cpu_us = o->cpu_us,
                .memory_peak = o->memory_peak,
                .tools = tools,
                .n_tools = take_tools(o, tools),
                .tools_total = o->calls_total,
        };
        event_cell_end(&event);
}

void session_tell_start(const struct session *s)
{
        event_session_start(&(struct event_session){
                .ids = session_log_ids(s, NULL), .sandbox = s->target, .profile = profile_of(s)});
}

void session_tell_end(const struct session *s, const struct cell *cell, const char *reason,
                      const char *why)
{
        event_session_end(&(struct event_session){.ids = session_log_ids(s, cell),
                                                  .sandbox = s->target,
                                                  .profile = profile_of(s),
                                                  .reason = reason,
                                                  .why = why});
}
