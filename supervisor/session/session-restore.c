/*
 * How a session goes back to a sleeping copy of its worker: after the worker's death, to a checkpoint, or
 * by undo() (docs/cells.md).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/session/outcome.h"
#include "supervisor/session/session-internal.h"
#include "supervisor/session/streams.h"

enum {
        NAMES_SHOWN = 5,
        GONE_MAX = 100000,
        REST_SIZE = 48, /* of what follows the names */
};

#define BY_OWNER "its owner went back with 'cloister sessions undo'"

struct session_copy *session_find_copy(struct session *s, uint64_t id)
{
        for (size_t i = 0; i < s->copy.n; i++) {
                if (s->copy.list[i].id == id)
                        return &s->copy.list[i];
        }
        return NULL;
}

bool session_restore_newest(struct session *s)
{
        if (!session_newest_copy(s))
                return false;
        session_enter(s, SESSION_RESTORING);
        s->context->requests.restore(s->context->requests.data, s->target, 0);
        return true;
}

void session_go_back(struct session *s, const struct session_details *details)
{
        const struct session_copy *copy = session_find_copy(s, s->copy.wanted);

        if (!copy)
                return;
        session_thaw(s);
        session_pause_cell(s);
        session_enter(s, SESSION_RESTORING);
        s->context->requests.restore(s->context->requests.data, s->target, copy->pid);
}

/* The cell goes on in which undo() was called, or which the owner wanted to end. */
static void go_on(struct session *s, enum session_back back)
{
        struct cell *cell = session_current(s);

        if (back == BACK_OWNER)
                snprintf(cell->outcome.note, sizeof(cell->outcome.note), "%s",
                         SESSION_NOT_TAKEN_BACK);
        else if (back == BACK_BLOCK)
                session_block_not_taken_back(s);
        else if (back == BACK_UNDO)
                calls_refuse(s, s->copy.query, SESSION_NOT_TAKEN_BACK);
        session_resume_cell(s);
}

/* The copy has ended before the worker: that lives. */
void session_cannot_go_back(struct session *s, const struct session_details *details)
{
        enum session_back back = s->copy.back;
        struct cell *cell = s->cells;

        if (session_cannot_roll_back(s))
                return;
        bool is_asked = back == BACK_CELL && cell && cell->restore[0];
        s->copy.wanted = 0;
        s->copy.back = BACK_NOT;
        if (session_current(s)) {
                if (back != BACK_NOT)
                        go_on(s, back);
                return;
        }
        session_enter(s, SESSION_IDLE);
        if (is_asked)
                session_is_prepared(s); /* refuses it */
        session_wake(s);
}

static void take_counters(struct session *s, const int fds[SESSION_COUNTERS])
{
        int before[] = {s->cpu_fd, s->peak_fd, s->memory_fd};

        fd_close_many(before, ARRAY_SIZE(before));
        s->cpu_fd = fds[0]; /* SESSION_CPU, the first of them */
        s->peak_fd = fds[SESSION_MEMORY_PEAK - SESSION_CPU];
        s->memory_fd = fds[SESSION_MEMORY - SESSION_CPU];
        s->process_peak = 0;
}

/* How its cell ended, as if the sandbox had ended. */
static void note_death(struct session *s, const struct monitor_ended *ended)
{
        struct cell *cell = session_current(s);
        const struct log_ids ids = session_log_ids(s, cell);
        struct cell_outcome none = {}, *outcome = cell ? &cell->outcome : &none;

        if (!cell || !cell->has_result) {
                outcome_dead(s, ended, outcome);
                log_event(LOG_LEVEL_INFO, &ids, "the interpreter of sandbox %u ended: %s",
                          s->target, outcome->why);
        }
        if (!cell)
                snprintf(s->copy.lost, sizeof(s->copy.lost), "%s", outcome->why);
        if (cell && !cell->has_result)
                outcome_take_usage(s, cell, ended);
}

/* How its cell ended, by undo() or by the owner; or why there is no cell. */
static void note_way_back(struct session *s, const struct monitor_ended *ended)
{
        struct cell *cell = session_current(s);
        bool by_owner = s->copy.back == BACK_OWNER;

        if (cell && !cell->has_result) {
                cell->outcome.status = by_owner ? CELL_CANCELLED : CELL_OK;
                if (by_owner)
                        snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", BY_OWNER);
                outcome_take_usage(s, cell, ended);
        } else if (!cell) {
                snprintf(s->copy.lost, sizeof(s->copy.lost), "%s", by_owner ? BY_OWNER : "");
        }
}

/* Its cell goes on. The counters of a process begin again with the copy. */
static void note_block(struct session *s, const struct monitor_ended *ended)
{
        struct cell *cell = session_current(s);
        enum monitor_usage kind = session_usage_kind(s);

        calls_forget_unsent(s);
        if (cell && kind == MONITOR_USAGE_PROC)
                cell->cpu_before_us += usage_cpu_us(kind, s->cpu_fd) - ended->cpu_usec;
}

/* Returns false if the monitor names a copy that is not known. */
static bool choose(struct session *s, uint32_t pid)
{
        for (size_t i = 0; i < s->copy.n; i++) {
                if (s->copy.list[i].pid != pid)
                        continue;
                s->copy.woken = s->copy.list[i];
                session_forget_copy(s, &s->copy.list[i]);
                s->copy.woken.has_door = false;
                return true;
        }
        return false;
}

void session_take_cleared(struct session *s, const struct session_details *details)
{
        bool is_known = choose(s, details->ended->copy);

        take_counters(s, details->fds);
        if (s->copy.back != BACK_NOT && s->copy.wanted != s->copy.woken.id)
                s->copy.back = BACK_NOT;
        s->copy.is_restoring = !session_is_rolling_block_back(s);
        session_enter(s, SESSION_DRAINING);
        channel_drain(&s->channel);
        streams_drain(s);
        if (session_is_rolling_block_back(s))
                note_block(s, details->ended);
        else if (s->copy.back == BACK_NOT)
                note_death(s, details->ended);
        else
                note_way_back(s, details->ended);
        session_forget_blocks(s);
        calls_drop_all(&s->calls);
        files_fail_all(s, "its interpreter has ended and was restored");
        s->catalogue = 0;
        if (!is_known || channel_reset(&s->channel) < 0) {
                session_kill_sandbox(s, END_CLOSED, OUTCOME_CLOSED);
                return;
        }
        s->copy.rolls_back = session_is_rolling_back(s);
        session_enter(s, SESSION_WAKING);
        s->context->requests.wake(s->context->requests.data, s->target, s->copy.rolls_back);
}

/* The copy that was woken has ended. What it has sent comes first: maybe it was the worker already, and the
 * session's state is another one then. */
void session_take_cleared_again(struct session *s, const struct session_details *details)
{
        channel_drain(&s->channel);
        if (s->state == SESSION_WAKING)
                session_take_cleared(s, details);
        else
                session_cleared(s, details->ended, details->fds);
}

void session_bury_woken(struct session *s, const struct session_details *details)
{
        channel_drain(&s->channel);
        if (s->state == SESSION_WAKING)
                session_bury(s, details);
        else
                session_dispatch(s, EVENT_ENDED, details);
}

/* What is gone since the copy was made; the counts are the worker's. */
void session_append_gone(yyjson_val *root, char *to, size_t size)
{
        int64_t threads = 0, processes = 0;
        size_t n = strlen(to);

        json_int64(yyjson_obj_get(root, "threads"), &threads);
        json_int64(yyjson_obj_get(root, "processes"), &processes);
        threads = threads < 0 || threads > GONE_MAX ? 0 : threads;
        processes = processes < 0 || processes > GONE_MAX ? 0 : processes;
        if (threads == 0 && processes == 0)
                return;
        char some[64] = "", others[64] = "";
        if (threads > 0)
                snprintf(some, sizeof(some), "%lld thread%s", (long long)threads,
                         threads == 1 ? "" : "s");
        if (processes > 0)
                snprintf(others, sizeof(others), "%lld process%s", (long long)processes,
                         processes == 1 ? "" : "es");
        bool is_one = threads + processes == 1;
        snprintf(to + n, size - n, "; %s%s%s %s gone", some, *some && *others ? " and " : "",
                 others, is_one ? "is" : "are");
}

/* A name of the worker's, fit for one line. */
static bool is_name(yyjson_val *name)
{
        const char *text = yyjson_get_str(name);
        size_t n = yyjson_get_len(name);

        if (!text || n == 0 || n > CELL_PATH_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                        return false;
        }
        return true;
}

void session_append_names(yyjson_val *names, int64_t total, char *to, size_t size)
{
        yyjson_arr_iter iter = yyjson_arr_iter_with(names);
        size_t n = strlen(to), shown = 0;
        yyjson_val *name;

        while (shown < NAMES_SHOWN && (name = yyjson_arr_iter_next(&iter))) {
                if (!is_name(name) || n + yyjson_get_len(name) + REST_SIZE > size)
                        continue;
                n += (size_t)snprintf(to + n, size - n, "%s%s", shown++ == 0 ? ": " : ", ",
                                      yyjson_get_str(name));
        }
        if (total > (int64_t)shown)
                snprintf(to + n, size - n, shown == 0 ? ": %lld" : " and %lld more",
                         (long long)total - (long long)shown);
}

/* The number is the worker's too. */
static void append_files(yyjson_val *root, char *to, size_t size)
{
        size_t n = strlen(to);
        int64_t total = 0;

        json_int64(yyjson_obj_get(root, "files_total"), &total);
        snprintf(to + n, size - n, "; files stay");
        if (total <= 0 || total > GONE_MAX)
                return;
        session_append_names(yyjson_obj_get(root, "files"), total, to, size);
        n = strlen(to);
        snprintf(to + n, size - n, " changed");
}

/* "restored to the end of cell 7: its variables; …" */
static void describe_restore(const struct session *s, yyjson_val *root, char to[CELL_WHY_MAX])
{
        const struct session_copy *copy = &s->copy.woken;
        bool by_name = s->copy.back == BACK_CELL || s->copy.back == BACK_OWNER;
        char name[SESSION_NAME_MAX + 32] = "";

        if (by_name && copy->name[0])
                snprintf(name, sizeof(name), "checkpoint \"%s\", ", copy->name);
        snprintf(to, CELL_WHY_MAX, "%srestored to %sthe end of cell %llu: its variables",
                 s->copy.back == BACK_UNDO ? "undo(): " : "", name, (unsigned long long)copy->of);
        session_append_gone(root, to, CELL_WHY_MAX);
        append_files(root, to, CELL_WHY_MAX);
}

int session_on_restored(struct session *s, const struct frame_header *header,
                        struct frame_body *body, struct error *err)
{
        struct cell *cell = session_current(s);
        char text[CELL_WHY_MAX];
        yyjson_val *root;

        if (header->id != s->copy.woken.id)
                return error_set(err, EPROTO, "RESTORED %llu, the copy is of KEEP %llu",
                                 (unsigned long long)header->id,
                                 (unsigned long long)s->copy.woken.id);
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        if (session_is_rolling_block_back(s)) {
                session_note_block(s, root);
                session_dispatch(s, EVENT_RESTORED, NULL);
                return 0;
        }
        if (s->copy.rolls_back && cell)
                session_describe_rollback("call", cell->outcome.calls_total > 0, root, text);
        else
                describe_restore(s, root, text);
        if (cell) {
                memcpy(cell->outcome.restored, text, sizeof(text));
        } else {
                size_t n = strlen(s->copy.lost);
                snprintf(s->copy.lost + n, sizeof(s->copy.lost) - n, "%s%s", n > 0 ? "; " : "",
                         text);
        }
        session_dispatch(s, EVENT_RESTORED, NULL);
        return 0;
}

/* Its cell goes on. */
static void take_block(struct session *s)
{
        /* The worker got an interrupt that it has not passed on. */
        bool again = s->stop_status != CELL_OK && !s->block.is_interrupted;

        s->copy.rolls_back = false;
        s->copy.wanted = 0;
        s->copy.back = BACK_NOT;
        session_resume_cell(s);
        if (again)
                s->context->requests.interrupt(s->context->requests.data, s->target, false);
}

/* Another copy of the same state is made at once, in place of the one that was woken: a cell that waits
 * could end the worker again. */
void session_take_restored(struct session *s, const struct session_details *details)
{
        if (session_is_rolling_block_back(s)) {
                take_block(s);
                return;
        }
        struct cell *cell = session_current(s), *next = cell ? cell->next : s->cells;
        struct session_copies *copy = &s->copy;

        if (copy->back == BACK_CELL && next && strcmp(next->restore, copy->woken.name) == 0)
                next->restore[0] = '\0';
        if (copy->is_told)
                copy->note[0] = '\0';
        copy->is_awaited = copy->is_offered = copy->is_told = copy->is_restoring = false;
        copy->wanted = 0;
        copy->back = BACK_NOT;
        s->transaction.state = TRANSACTION_NONE;
        s->state_of = copy->woken.of;
        s->stop_status = CELL_OK;
        s->used_us = clock_us();
        if (cell) {
                cell->outcome.state = copy->rolls_back ? CELL_STATE_ROLLED_BACK
                                                       : CELL_STATE_RESTORED;
                /* Files that it had made are gone. */
                if (copy->rolls_back)
                        cell->outcome.n_files = cell->outcome.files_total = 0;
                if (cell->checkpoint[0])
                        session_say_no_checkpoint(cell, copy->rolls_back
                                                                ? "the code failed"
                                                                : "the interpreter ended before");
                session_end_cell(s, cell);
        }
        copy->rolls_back = false;
        session_ask_copy(s, copy->woken.name);
        session_wake(s);
}

void session_give_up_restore(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_CLOSED, OUTCOME_LATE);
}
