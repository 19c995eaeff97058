/* Gathers the facts of the events of sessions and cells. */
#include "supervisor/session/machine/session-events.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/service/event.h"
#include "supervisor/session/machine/machine.h"

enum { RECEIPT_BYTES_MAX = 7 * 1024 }; /* in a record of the journal */

static const char *profile_of(const struct session *s)
{
        return s->profile ? s->profile->name : "";
}

static bool is_journalled(const struct session *s)
{
        return s->profile && s->profile->journal.is_set;
}

void session_tell_cell_begin(const struct session *s, const struct cell *cell)
{
        if (!event_is_on(is_journalled(s)))
                return;
        const char *code = cell->payload.length > 0 ? buffer_bytes(&cell->payload) : "";
        const struct event_cell_begin event = {
                .ids = session_log_ids(s, cell),
                .code = code,
                .code_length = cell->payload.length > 0 ? cell->code_length : 0,
                .profile = profile_of(s),
                .attempt = cell->attempts + 1,
                .is_journalled = is_journalled(s),
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

/* With the names of calls, files and hosts if they fit. */
static void put_receipt(const struct session *s, const struct cell *cell, struct buffer *to)
{
        const struct receipt *receipt = receipts_find(&s->receipts, cell->number);

        for (int whole = 1; receipt && whole >= 0; whole--) {
                struct json_out out = {.to = to};
                receipts_put(&out, receipt, whole);
                if (out.error == 0)
                        return;
                buffer_consume(to, to->length);
                to->error = 0;
        }
}

void session_tell_cell_end(const struct session *s, const struct cell *cell)
{
        const struct cell_outcome *o = &cell->outcome;
        struct event_tool tools[CELL_CALLS_KEPT] _uninitialized_;

        _cleanup_buffer_ struct buffer receipt = BUFFER_INIT(RECEIPT_BYTES_MAX);

        if (!event_is_on(is_journalled(s)))
                return;
        if (is_journalled(s))
                put_receipt(s, cell, &receipt);
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
                .receipt = receipt.length > 0 ? &receipt : NULL,
                .is_journalled = is_journalled(s),
        };
        event_cell_end(&event);
}

void session_tell_start(const struct session *s)
{
        event_session_start(&(struct event_session){.ids = session_log_ids(s, NULL),
                                                    .sandbox = s->target,
                                                    .profile = profile_of(s),
                                                    .is_journalled = is_journalled(s)});
}

void session_tell_end(const struct session *s, const struct cell *cell, const char *reason,
                      const char *why)
{
        event_session_end(&(struct event_session){.ids = session_log_ids(s, cell),
                                                  .sandbox = s->target,
                                                  .profile = profile_of(s),
                                                  .reason = reason,
                                                  .why = why,
                                                  .is_journalled = is_journalled(s)});
}
