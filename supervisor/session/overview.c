/* Metrics of sessions, and their list for the live view. */
#include "supervisor/session/overview.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "supervisor/service/metrics.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sessions-owner.h"

/* ---- figures, read in turn ---- */

struct turn {
        size_t at;       /* of the session that comes next */
        size_t begin, n; /* those from begin on are read, while n are left */
        struct json_out *out;
};

/* The turn of all calls: where the next one begins. */
static size_t next_begin;

static void read_figures(struct turn *turn, struct session *s)
{
        enum monitor_usage kind = session_usage_kind(s);

        if (s->state >= SESSION_IDLE && turn->at >= turn->begin && turn->n > 0) {
                s->seen.memory = meter_memory(&s->meter, kind);
                s->seen.cpu_us = meter_cpu_us(&s->meter, kind);
                turn->n--;
        }
        turn->at++;
}

static struct turn begin_turn(void)
{
        return (struct turn){.begin = next_begin, .n = OVERVIEW_READ_MAX};
}

/* Those that are left of the turn are read from the first session on. */
static void end_turn(const struct turn *turn)
{
        next_begin = turn->n > 0 ? 0 : turn->begin + OVERVIEW_READ_MAX;
        next_begin = next_begin >= turn->at ? 0 : next_begin;
}

/* ---- metrics ---- */

static void collect_one(void *data, struct session *s)
{
        read_figures(data, s);
        metrics_sum(METRIC_SESSIONS, 1, session_state_name(s->state));
        metrics_sum(METRIC_MEMORY, (double)s->seen.memory, "sandboxes");
        if (s->principal->key[0]) {
                metrics_sum(METRIC_PRINCIPAL_SESSIONS, 1, s->principal->key);
                metrics_sum(METRIC_PRINCIPAL_MEMORY, (double)s->seen.memory, s->principal->key);
        }
}

void sessions_collect(struct sessions *sessions)
{
        struct sessions_count count;
        struct turn turn = begin_turn();

        sessions_count(sessions, &count);
        metrics_set(METRIC_SESSIONS_MAX, (double)count.max);
        metrics_set(METRIC_POOL_READY, (double)count.spares_ready);
        metrics_clear(METRIC_SESSIONS);
        metrics_clear(METRIC_PRINCIPAL_SESSIONS);
        metrics_clear(METRIC_PRINCIPAL_MEMORY);
        sessions_visit(sessions, collect_one, &turn);
        end_turn(&turn);
}

/* ---- the live view ---- */

static void put(struct json_out *out, const char *key, uint64_t number)
{
        json_out_int(out, key, (int64_t)number);
}

static void put_calls(struct json_out *out, const struct cell *cell)
{
        char name[2 * CELL_NAME_MAX + 2];
        size_t n = 0;

        json_out_begin(out, "calls", '[');
        for (size_t i = cell->outcome.n_calls; i > 0 && n < OVERVIEW_CALLS_MAX; i--) {
                const struct cell_call *call = &cell->outcome.calls[i - 1];
                if (!call->used || !call->pending)
                        continue;
                snprintf(name, sizeof(name), "%s.%s", call->server, call->tool);
                json_out_text(out, NULL, name);
                n++;
        }
        json_out_end(out, ']');
}

static void put_code(struct json_out *out, const struct session *s)
{
        const struct cell *cell = session_current(s);
        struct session_running running;

        if (!cell) {
                if (s->history.n_run > 0)
                        json_out_text(out, "code", s->history.last.code);
                return;
        }
        session_describe_running(s, &running);
        json_out_text(out, "code", running.code);
        put(out, "running_ms", running.duration_us / 1000);
        if (running.line[0])
                json_out_text(out, "line", running.line);
        put_calls(out, cell);
}

static void put_one(void *data, struct session *s)
{
        struct turn *turn = data;
        struct json_out *out = turn->out;
        const struct cell *cell = session_current(s);
        uint64_t now = clock_us();

        read_figures(turn, s);
        json_out_begin(out, NULL, '{');
        json_out_text(out, "principal", s->principal->key);
        json_out_text(out, "name", session_key_name(s->name));
        if (s->profile)
                json_out_text(out, "profile", s->profile->name);
        json_out_text(out, "state", session_shown_state(s));
        put(out, "age_ms", s->state >= SESSION_IDLE ? (now - s->born_us) / 1000 : 0);
        if (s->state >= SESSION_IDLE && s->state <= SESSION_SETTLING)
                put(out, "idle_ms", (now - s->history.used_us) / 1000);
        put(out, "memory", s->seen.memory);
        put(out, "cpu_ms", s->seen.cpu_us / 1000);
        put(out, "cells", s->history.n_run);
        put(out, "waiting", s->queue.n - (cell != NULL));
        put(out, "tool_calls", s->history.traffic.calls + (cell ? cell->outcome.calls_total : 0));
        put_code(out, s);
        json_out_end(out, '}');
}

int sessions_append_view(struct sessions *sessions, struct buffer *to)
{
        struct json_out out = {.to = to};
        struct turn turn = begin_turn();

        turn.out = &out;
        json_out_begin(&out, NULL, '[');
        sessions_visit(sessions, put_one, &turn);
        json_out_end(&out, ']');
        end_turn(&turn);
        return out.error;
}
