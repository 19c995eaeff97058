/* How a cell ended: according to the worker, to the kernel, or because the broker stopped it. */
#include "supervisor/session/outcome.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "rpc/sandbox-messages.h"
#include "supervisor/session/usage.h"

/* The session's peak does not count what tasks of the code take and release again in so short a time between two cells: to
 * read the counter once more is a fiftieth of a short call. */
enum { BACK_TO_BACK_US = 1000 };

/* The monitor looks at each session within this time. */
enum { LOOK_US = 250000 };

const char *outcome_seconds(uint64_t ms, char to[32])
{
        if (ms % 1000 == 0)
                snprintf(to, 32, "%llu s", (unsigned long long)(ms / 1000));
        else
                snprintf(to, 32, "%.3g s", (double)ms / 1000);
        return to;
}

void outcome_describe_stop(const struct session *s, const struct cell *cell, char to[CELL_WHY_MAX])
{
        char text[32];

        if (s->stop_status == CELL_TIMEOUT)
                snprintf(to, CELL_WHY_MAX, "the call reached its timeout of %s",
                         outcome_seconds(cell->timeout_ms, text));
        else
                snprintf(to, CELL_WHY_MAX, "%s",
                         cell->is_interrupted ? "another call of the session interrupted it"
                                              : "the call was cancelled");
}

void outcome_alive(const struct session *s, struct cell *cell)
{
        struct cell_outcome *o = &cell->outcome;

        if (s->stop_status == CELL_OK)
                return;
        o->status = s->stop_status;
        o->has_exit_code = false;
        outcome_describe_stop(s, cell, o->why);
}

/* How the worker died, from its wait status, if the broker did not kill it. */
static void describe_death(const struct session *s, const struct monitor_ended *ended,
                           struct cell_outcome *o)
{
        int status = ended->wait_status;
        const char *name;

        if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == FRAME_EXIT_LOST) {
                o->status = CELL_KILLED;
                snprintf(o->why, sizeof(o->why), "%s", OUTCOME_CLOSED);
                return;
        }
        if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == SANDBOX_EXIT_SETUP) {
                o->status = CELL_KILLED;
                snprintf(o->why, sizeof(o->why), "%s", OUTCOME_SETUP);
                return;
        }
        if (status != -1 && WIFEXITED(status)) {
                o->status = CELL_EXIT;
                o->has_exit_code = true;
                o->exit_code = WEXITSTATUS(status);
                snprintf(o->why, sizeof(o->why), "the code ended the interpreter with exit code %d",
                         o->exit_code);
                return;
        }
        int number = status == -1 ? SIGKILL : WTERMSIG(status);
        if (ended->oom_kills > 0 && number == SIGKILL) {
                o->status = CELL_OOM;
                snprintf(o->why, sizeof(o->why), "the sandbox ran out of memory (limit %llu MiB)",
                         (unsigned long long)((s->profile ? s->profile->limits.memory
                                                          : s->context->hello.memory_max) >>
                                              20));
                return;
        }
        o->status = CELL_KILLED;
        if (status == -1) {
                snprintf(o->why, sizeof(o->why), "the sandbox was killed");
                return;
        }
        o->signal = number;
        name = sigabbrev_np(number);
        snprintf(o->why, sizeof(o->why), "the interpreter was killed by SIG%s", name ? name : "?");
}

/* Whether SIGKILL, which was our kill, ended the worker. If it died of something else before that,
 * its death explains why the channel ended. */
static bool died_of_our_kill(const struct monitor_ended *ended)
{
        int status = ended->wait_status;

        return ended->oom_kills == 0 &&
               (status == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

void outcome_dead(const struct session *s, const struct monitor_ended *ended,
                  struct cell_outcome *o)
{
        static const enum cell_status by_end[] = {
                [END_TIMEOUT] = CELL_TIMEOUT, [END_CANCELLED] = CELL_CANCELLED,
                [END_RESET] = CELL_KILLED,    [END_IDLE] = CELL_KILLED,
                [END_PROTOCOL] = CELL_KILLED, [END_CLOSED] = CELL_KILLED,
                [END_OWNER] = CELL_KILLED,
        };
        static_assert(ARRAY_SIZE(by_end) == SESSION_END_MAX, "a status for each end");

        o->state = CELL_STATE_LOST;
        if (s->end == END_NONE || (s->end == END_CLOSED && !died_of_our_kill(ended))) {
                describe_death(s, ended, o);
                if (s->stop_status == CELL_OK)
                        return;
                /* The code answered the interrupt by ending the process. */
                o->status = s->stop_status;
                outcome_describe_stop(s, s->cells, o->why);
                return;
        }
        o->status = by_end[s->end];
        snprintf(o->why, sizeof(o->why), "%s", s->why);
}

static void keep_peak(struct session *s, uint64_t peak)
{
        if (peak > s->memory_peak)
                s->memory_peak = peak;
}

void session_memory(struct session *s, uint64_t bytes)
{
        s->sampled.now = bytes;
        if (bytes > s->sampled.most)
                s->sampled.most = bytes;
        keep_peak(s, bytes);
}

/* A peak of the interpreter that the monitor has perhaps not seen yet still holds. */
static void begin_sampled(struct session *s, const struct cell *cell)
{
        struct session_sampled *sampled = &s->sampled;

        sampled->most = sampled->now;
        if (cell->started_us - sampled->grown_us < LOOK_US && sampled->grown > sampled->most &&
            sampled->now > 0)
                sampled->most = sampled->grown;
}

/* The interpreter's own peak, which is known exactly, belongs to this cell if it has grown in it. 0: no sample. */
static uint64_t end_sampled(struct session *s, uint64_t before, uint64_t peak)
{
        struct session_sampled *sampled = &s->sampled;

        if (peak > before) {
                sampled->grown = peak;
                sampled->grown_us = clock_us();
        }
        if (peak > before && sampled->most > 0 && peak > sampled->most)
                sampled->most = peak;
        return sampled->most;
}

void outcome_begin_peak(struct session *s, const struct cell *cell)
{
        enum monitor_usage kind = session_usage_kind(s);
        uint64_t before = 0;

        if (kind == MONITOR_USAGE_PROC) {
                begin_sampled(s, cell);
                return;
        }
        if (cell->started_us - s->last.ended_us >= BACK_TO_BACK_US)
                before = usage_memory_peak(kind, s->peak_fd);
        s->peak_is_reset = usage_reset_peak(kind, s->peak_fd);
        if (s->peak_is_reset)
                keep_peak(s, before);
}

/* ended: the monitor reads the counter by a descriptor of its own, which version 2 does not reset. */
static enum cell_peak peak_of(const struct session *s, enum monitor_usage kind, bool ended)
{
        if (kind == MONITOR_USAGE_PROC)
                return s->sampled.most > 0 ? CELL_PEAK_SAMPLED : CELL_PEAK_PROCESS;
        if (!s->peak_is_reset || (ended && kind == MONITOR_USAGE_CGROUP2))
                return CELL_PEAK_SESSION;
        return CELL_PEAK_CELL;
}

static void note_last(struct session *s, const struct cell_outcome *o)
{
        struct session_traffic *all = &s->traffic, *last = &s->last.traffic;

        *last = (struct session_traffic){
                .calls = o->calls_total, .sent = o->sent_bytes, .received = o->received_bytes};
        for (int i = 0; i < CELL_STREAMS; i++)
                last->output += o->streams[i].bytes;
        all->calls += last->calls;
        all->sent += last->sent;
        all->received += last->received;
        all->output += last->output;
        s->last.status = o->status;
        s->last.duration_us = o->duration_us;
        s->last.ended_us = s->last.started_us + o->duration_us;
        s->last.cpu_us = o->cpu_us;
        s->last.memory_peak = o->memory_peak;
        keep_peak(s, o->memory_peak);
}

void outcome_take_usage(struct session *s, struct cell *cell, const struct monitor_ended *ended)
{
        struct cell_outcome *o = &cell->outcome;
        enum monitor_usage kind = session_usage_kind(s);
        uint64_t cpu, peak, sampled, before = s->process_peak;

        if (ended) {
                cpu = ended->cpu_usec;
                peak = ended->memory_peak;
        } else {
                cpu = usage_cpu_us(kind, s->cpu_fd);
                peak = s->process_peak = usage_memory_peak(kind, s->peak_fd);
        }
        if (kind == MONITOR_USAGE_PROC && (sampled = end_sampled(s, before, peak)) > 0)
                peak = sampled;
        o->duration_us = clock_us() - cell->started_us;
        o->queued_us = cell->started_us - cell->asked_us;
        /* What the cell had used before a rollback of its block is part of cpu_before_us, which may wrap. */
        o->cpu_us = (int64_t)(cpu - cell->cpu_before_us) > 0 ? cpu - cell->cpu_before_us : 0;
        o->memory_peak = peak;
        o->peak_of = peak_of(s, kind, ended != NULL);
        o->network = s->profile ? s->profile->network : CONFIG_NETWORK_NONE;
        if (!cell->is_probe)
                session_network_take(s, o);
        calls_forget_unsent(s);
        for (size_t i = 0; i < o->n_calls; i++) {
                struct cell_call *call = &o->calls[i];
                if (!call->pending)
                        continue;
                call->duration_us = clock_us() - call->started_us;
                o->calls_total++;
                o->sent_bytes += call->sent_bytes;
        }
        if (!cell->is_probe)
                note_last(s, o);
}
