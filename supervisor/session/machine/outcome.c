/* Decides how a cell ended: according to the worker, to the kernel, or because the broker stopped it. */
#include "supervisor/session/machine/outcome.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "policy/rules/rule.h"
#include "rpc/sandbox-messages.h"
#include "supervisor/session/machine/network.h"
#include "supervisor/trust/records/doubts.h"

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
                         outcome_seconds(cell->request.timeout_ms, text));
        else
                snprintf(to, CELL_WHY_MAX, "%s",
                         cell->interrupted_by ? cell->interrupted_by : "the call was cancelled");
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

static void describe_limit(const struct session *s, const struct monitor_ended *ended,
                           struct cell_outcome *o)
{
        uint64_t own = s->profile ? s->profile->limits.memory : s->context->hello.memory_max;
        char figure[32] = "";

        if (ended->limit == MONITOR_LIMIT_SESSION) {
                snprintf(o->why, sizeof(o->why), "the sandbox ran out of memory (limit %llu MiB)",
                         (unsigned long long)(own >> 20));
                return;
        }
        if (ended->limit_bytes > 0)
                snprintf(figure, sizeof(figure), " (%llu MiB)",
                         (unsigned long long)(ended->limit_bytes >> 20));
        snprintf(
                o->why, sizeof(o->why),
                ended->limit == MONITOR_LIMIT_PRINCIPAL
                        ? "the sandbox was ended to free memory: the sessions of this principal reached \"memory=\"%s"
                        : "the sandbox was ended to free memory: all sessions reached \"memory_total\"%s or the server's own limit",
                figure);
}

void outcome_note_stopped(struct session *s, struct cell *cell)
{
        uint32_t most = config_background_ms(s->context->config, s->profile);
        char *note = cell->outcome.note, text[32];

        if (s->rest.stopped == 0)
                return;
        text_append(note, sizeof(cell->outcome.note), "%s%u %s stopped after %s of CPU time",
                    *note ? "; " : "", s->rest.stopped,
                    s->rest.stopped == 1 ? "process was" : "processes were",
                    outcome_seconds(most, text));
        s->rest.stopped = 0;
}

/* Describes how the worker ended, from its wait status, if the broker did not kill it. */
static void describe_death(const struct session *s, const struct monitor_ended *ended,
                           struct cell_outcome *o)
{
        int status = ended->wait_status;

        o->status = CELL_KILLED;
        if (status != -1 && WIFEXITED(status)) {
                int code = WEXITSTATUS(status);
                if (code == FRAME_EXIT_LOST || code == SANDBOX_EXIT_SETUP) {
                        snprintf(o->why, sizeof(o->why), "%s",
                                 code == FRAME_EXIT_LOST ? OUTCOME_CLOSED : OUTCOME_SETUP);
                        return;
                }
                o->status = CELL_EXIT;
                o->has_exit_code = true;
                o->exit_code = code;
                snprintf(o->why, sizeof(o->why), "the code ended the interpreter with exit code %d",
                         code);
                return;
        }
        int number = status == -1 ? SIGKILL : WTERMSIG(status);
        if (ended->oom_kills > 0 && number == SIGKILL) {
                o->status = CELL_OOM;
                describe_limit(s, ended, o);
                return;
        }
        if (status == -1) {
                snprintf(o->why, sizeof(o->why), "the sandbox was killed");
                return;
        }
        o->signal = number;
        const char *name = sigabbrev_np(number);
        snprintf(o->why, sizeof(o->why), "the interpreter was killed by SIG%s", name ? name : "?");
}

/* Whether SIGKILL, which was our kill, ended the worker. If something else ended it before that,
 * its wait status explains why the channel ended. */
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
                outcome_describe_stop(s, s->queue.first, o->why);
                return;
        }
        o->status = by_end[s->end];
        snprintf(o->why, sizeof(o->why), "%s", s->why);
}

static void note_last(struct session *s, const struct cell_outcome *o)
{
        struct session_traffic *all = &s->history.traffic, *last = &s->history.last.traffic;

        *last = (struct session_traffic){
                .calls = o->calls_total, .sent = o->sent_bytes, .received = o->received_bytes};
        for (int i = 0; i < CELL_STREAMS; i++)
                last->output += o->streams[i].bytes;
        all->calls += last->calls;
        all->sent += last->sent;
        all->received += last->received;
        all->output += last->output;
        s->history.last.status = o->status;
        s->history.last.duration_us = o->duration_us;
        s->history.last.ended_us = s->history.last.started_us + o->duration_us;
        s->history.last.cpu_us = o->cpu_us;
        s->history.last.memory_peak = o->memory_peak;
        meter_keep(&s->meter, o->memory_peak);
}

/* A new sandbox has seen nothing but the mounts, and what the session had that it is a branch of. */
static void open_labels(struct session *s)
{
        const struct config_profile *profile = s->profile;
        char name[64];

        session_labels_done(&s->labels);
        s->labels = s->inherited;
        s->inherited = (struct session_labels){};
        for (size_t i = 0; profile && i < profile->n_mounts; i++) {
                if (!profile->mounts[i].is_private)
                        continue;
                snprintf(name, sizeof(name), "mount %.48s", profile->mounts[i].target);
                session_labels_add(&s->labels, RULES_PRIVATE, name, 0, 0);
        }
}

void outcome_open(struct session *s, uint64_t now_us)
{
        open_labels(s);
        s->history = (struct session_history){.used_us = now_us, .last = s->history.last};
}

void outcome_note_start(struct session *s, const struct cell *cell)
{
        s->history.n_run++;
        s->history.last.started_us = cell->started_us;
        memcpy(s->history.last.code, cell->excerpt, sizeof(s->history.last.code));
}

void outcome_begin(struct session *s, struct cell *cell)
{
        enum monitor_usage kind = session_usage_kind(s);

        /* Read while the worker wakes up: it has used almost no CPU time for the cell by then. */
        cell->cpu_before_us = meter_cpu_us(&s->meter, kind);
        meter_begin(&s->meter, kind, cell->started_us, cell->started_us - s->history.last.ended_us);
}

void outcome_take_usage(struct session *s, struct cell *cell, const struct monitor_ended *ended)
{
        struct cell_outcome *o = &cell->outcome;
        uint64_t cpu;

        meter_end(&s->meter, session_usage_kind(s), ended, &cpu, &o->memory_peak, &o->peak_of);
        o->duration_us = clock_us() - cell->started_us;
        o->queued_us = cell->started_us - cell->asked_us;
        /* The usage of the cell before a rollback of its block is part of cpu_before_us, which may wrap. */
        o->cpu_us = (int64_t)(cpu - cell->cpu_before_us) > 0 ? cpu - cell->cpu_before_us : 0;
        o->network = s->profile ? s->profile->network : CONFIG_NETWORK_NONE;
        if (!cell->request.is_probe)
                session_network_take(s, o);
        for (size_t i = 0; i < o->n_calls; i++) {
                struct cell_call *call = &o->calls[i];
                if (!call->pending)
                        continue;
                call->duration_us = clock_us() - call->started_us;
                o->calls_total++;
                o->sent_bytes += call->sent_bytes;
        }
        if (!cell->request.is_probe)
                note_last(s, o);
}

/* ---- what the server's owner does ---- */

static void describe(const struct session_owners *o, char to[CELL_WHY_MAX])
{
        to[0] = '\0';
        if (o->cells > 0)
                text_append(to, CELL_WHY_MAX,
                            "since the last call a person has run %" PRIu64
                            " cell%s in this session%s: %s",
                            o->cells, plural(o->cells), o->cells > 1 ? ", the last one" : "",
                            o->code);
        if (o->end[0])
                text_append(to, CELL_WHY_MAX, "; it %s", o->end);
        if (o->files > 0)
                text_append(to, CELL_WHY_MAX,
                            "%sa person has copied %" PRIu64 " file%s to /workspace%s: %s",
                            to[0] ? "; " : "since the last call ", o->files, plural(o->files),
                            o->files > 1 ? ", the last one" : "", o->file);
        utf8_trim(to);
}

bool session_note_owner(struct session *s, struct cell *cell)
{
        struct session_owners *o = &s->owners;
        bool fresh = session_is_fresh(s);

        if (cell->request.is_probe)
                return fresh;
        if (cell->request.is_owners) {
                o->is_first |= fresh;
                return fresh;
        }
        if (o->cells + o->files > 0)
                describe(o, cell->outcome.owner);
        doubts_tell(s->name, cell->outcome.owner, sizeof(cell->outcome.owner));
        return fresh || o->is_first;
}

static void describe_end(const struct cell_outcome *outcome, char to[CELL_WHY_MAX])
{
        bool has_why = outcome->why[0] && !outcome->error_type;

        to[0] = '\0';
        if (outcome->status != CELL_OK || outcome->state >= CELL_STATE_LOST)
                snprintf(to, CELL_WHY_MAX, "ended as %s%s%s%s%s", cell_status_name(outcome->status),
                         has_why ? ": " : "", has_why ? outcome->why : "",
                         outcome->restored[0] ? "; " : "", outcome->restored);
        utf8_trim(to);
}

void session_note_owners_end(struct session *s, const struct cell *cell)
{
        struct session_owners *o = &s->owners;
        bool is_restored = cell->outcome.state == CELL_STATE_RESTORED;

        if (!cell->request.is_owners) {
                /* The result of a cancelled call is not read: the next one says it again. */
                if (!cell->cancelled && cell->kind == CELL_CODE) {
                        *o = (struct session_owners){};
                        doubts_forget_told(s->name);
                }
                return;
        }
        if (cell->request.is_probe && !is_restored)
                return;
        o->cells++;
        memcpy(o->code, cell->excerpt, sizeof(o->code));
        describe_end(&cell->outcome, o->end);
        /* The next sandbox is new for the client because of s->lost. */
        if (cell->outcome.state == CELL_STATE_LOST)
                o->is_first = false;
}

void session_note_file(struct session *s, const char *path)
{
        s->owners.files++;
        snprintf(s->owners.file, sizeof(s->owners.file), "%s", path);
        utf8_trim(s->owners.file);
}
