/* Makes checkpoints, and returns to copies. */
#include "supervisor/session/state/restore.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/calls/files.h"
#include "supervisor/session/calls/pictures.h"
#include "supervisor/session/machine/outcome.h"
#include "supervisor/session/machine/queue.h"
#include "supervisor/session/state/block.h"
#include "supervisor/session/state/copies.h"
#include "supervisor/session/state/transaction.h"

#define BY_OWNER "its owner went back with 'cloister sessions undo'"

/* ---- checkpoints ---- */

/* Whether the first cell may not ask for its checkpoint. */
static bool is_refused(struct session *s, const char *name, char why[CELL_WHY_MAX])
{
        uint32_t most = s->profile ? s->profile->checkpoints : 0;
        char names[CELL_WHY_MAX / 2];

        if (session_is_javascript(s)) {
                snprintf(why, CELL_WHY_MAX,
                         "a JavaScript session has no copies, so no checkpoints; nothing was run");
                return true;
        }
        if (!s->profile || !s->profile->survives || most == 0) {
                snprintf(
                        why, CELL_WHY_MAX,
                        "no checkpoints can be made here: the config's state.%s says so; nothing was run",
                        most == 0 ? "checkpoints" : "survives");
                return true;
        }
        if (copies_find_name(s, name) || copies_list_names(s, names, sizeof(names)) < most)
                return false;
        snprintf(
                why, CELL_WHY_MAX,
                "a session has %u checkpoints at most, and %s: use the name of one of them, which is "
                "replaced; nothing was run",
                most, names);
        return true;
}

static void refuse_unknown(struct session *s, const char *name)
{
        char why[CELL_WHY_MAX], names[CELL_WHY_MAX / 3];

        copies_list_names(s, names, sizeof(names));
        snprintf(why, sizeof(why), "no checkpoint is called \"%s\": %s", name, names);
        if (s->lost[0])
                text_append(why, sizeof(why), ", since the state was lost (%.200s)", s->lost);
        text_append(why, sizeof(why), "; nothing was run");
        session_refuse_first(s, "CheckpointError", why);
}

bool checkpoint_prepare(struct session *s)
{
        struct cell *cell = s->queue.first;
        const struct copy *copy;
        char why[CELL_WHY_MAX];

        if (cell->checkpoint[0] && s->state >= SESSION_IDLE &&
            is_refused(s, cell->checkpoint, why)) {
                session_refuse_first(s, "CheckpointError", why);
                return false;
        }
        if (!cell->restore[0])
                return true;
        copy = copies_find_name(s, cell->restore);
        if (!copy) {
                refuse_unknown(s, cell->restore);
                return false;
        }
        copies_go_back(s, copy, BACK_CELL, 0);
        return false;
}

bool checkpoint_make(struct session *s, struct cell *cell)
{
        const char *why = cell->outcome.status != CELL_OK ? "the code did not end well"
                          : s->copies->is_awaited || s->copies->is_offered
                                  ? "an earlier copy is still being made"
                                  : NULL;

        if (why) {
                copies_say_no_checkpoint(cell, why);
                return false;
        }
        cell->has_result = true;
        copies_keep(s, cell->checkpoint);
        return true;
}

/* The copy of the state before the cell that runs, or NULL. */
static const struct copy *copy_before(struct session *s)
{
        const struct copy *newest = copies_newest(s);

        return newest && newest->of == s->copies->state_of ? newest : NULL;
}

int checkpoint_on_undo(struct session *s, uint64_t query, yyjson_val *root, struct error *err)
{
        const struct copy *before = copy_before(s);

        if (before && s->state == SESSION_RUNNING) {
                copies_go_back(s, before, BACK_UNDO, query);
                return 0;
        }
        answer_refuse(
                &s->channel, query,
                s->state != SESSION_RUNNING
                        ? "undo() works while a cell runs"
                        : "there is no copy of the state before this cell: it is the first one, it began "
                          "too soon after the previous one, or no copy could be made");
        return 0;
}

int checkpoint_undo(struct session *s, const char *checkpoint, struct error *err)
{
        const struct copy *copy = checkpoint           ? copies_find_name(s, checkpoint)
                                  : session_current(s) ? copy_before(s)
                                                       : NULL;
        char names[CELL_WHY_MAX / 3];

        for (size_t i = s->copies->n; i > 0 && !copy && !checkpoint && !session_current(s); i--) {
                if (s->copies->list[i - 1].name[0])
                        copy = &s->copies->list[i - 1];
        }
        copies_list_names(s, names, sizeof(names));
        if (!copy && checkpoint)
                return error_set(err, ENOENT, "no checkpoint is called \"%s\": %s", checkpoint,
                                 names);
        if (!copy && session_current(s))
                return error_set(err, ENOENT,
                                 "there is no copy of the state before this call; checkpoints: %s",
                                 names);
        if (!copy)
                return error_set(err, ENOENT, "no call runs, and the session has no checkpoint");
        if (copies_go_back(s, copy, BACK_OWNER, 0))
                return 0;
        return error_set(err, EBUSY, "the session is %s: try again", session_state_name(s->state));
}

/* ---- the return ---- */

bool restore_newest(struct session *s)
{
        if (!copies_newest(s))
                return false;
        session_enter(s, SESSION_RESTORING);
        sandbox_request(&s->context->requests, MONITOR_SESSION_RESTORE, s->target, 0);
        return true;
}

void restore_go_back(struct session *s, const struct session_details *details)
{
        const struct copy *copy = copies_find(s, s->copies->wanted);

        if (!copy)
                return;
        session_thaw(s);
        session_pause_cell(s);
        session_enter(s, SESSION_RESTORING);
        sandbox_request(&s->context->requests, MONITOR_SESSION_RESTORE, s->target, copy->pid);
}

/* Continues the cell in which undo() was called, or which the owner tried to end. */
static void go_on(struct session *s, enum copies_back back)
{
        struct cell *cell = session_current(s);

        if (back == BACK_OWNER)
                snprintf(cell->outcome.note, sizeof(cell->outcome.note), "%s",
                         COPIES_NOT_TAKEN_BACK);
        else if (back == BACK_BLOCK)
                block_not_taken_back(s);
        else if (back == BACK_UNDO)
                answer_refuse(&s->channel, s->copies->query, COPIES_NOT_TAKEN_BACK);
        session_resume_cell(s);
}

/* The copy has ended before the worker: that lives. */
void restore_cannot_go_back(struct session *s, const struct session_details *details)
{
        enum copies_back back = s->copies->back;
        struct cell *cell = s->queue.first;

        if (transaction_cannot_roll_back(s))
                return;
        bool is_asked = back == BACK_CELL && cell && cell->restore[0];
        s->copies->wanted = 0;
        s->copies->back = BACK_NOT;
        if (session_current(s)) {
                if (back != BACK_NOT)
                        go_on(s, back);
                return;
        }
        session_enter(s, SESSION_IDLE);
        if (is_asked)
                checkpoint_prepare(s); /* refuses it */
        session_wake(s);
}

static void take_usage(struct session *s, struct cell *cell, const struct monitor_ended *ended)
{
        calls_forget_unsent(s);
        outcome_take_usage(s, cell, ended);
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
        if (cell && !cell->has_result)
                take_usage(s, cell, ended);
        if (cell)
                return;
        bool is_last = ++s->copies->n_idle > RESTORE_IDLE_MAX;
        snprintf(s->copies->lost, sizeof(s->copies->lost), "%s%s", outcome->why,
                 is_last ? ", again and again since the last call" : "");
}

/* How its cell ended, by undo() or by the owner; or why there is no cell. */
static void note_way_back(struct session *s, const struct monitor_ended *ended)
{
        struct cell *cell = session_current(s);
        bool by_owner = s->copies->back == BACK_OWNER;

        if (cell && !cell->has_result) {
                cell->outcome.status = by_owner ? CELL_CANCELLED : CELL_OK;
                if (by_owner)
                        snprintf(cell->outcome.why, sizeof(cell->outcome.why), "%s", BY_OWNER);
                take_usage(s, cell, ended);
        } else if (!cell) {
                snprintf(s->copies->lost, sizeof(s->copies->lost), "%s", by_owner ? BY_OWNER : "");
        }
}

/* Its cell continues. The counters of a process start again with the copy. */
static void note_block(struct session *s, const struct monitor_ended *ended)
{
        struct cell *cell = session_current(s);
        enum monitor_usage kind = session_usage_kind(s);

        calls_forget_unsent(s);
        if (cell && kind == MONITOR_USAGE_PROC)
                cell->cpu_before_us += meter_cpu_us(&s->meter, kind) - ended->cpu_usec;
}

/* Returns false if the monitor names a copy that is not known. */
static bool choose(struct session *s, uint32_t pid)
{
        struct copy *copy = copies_find_pid(s, pid);

        if (!copy)
                return false;
        s->copies->woken = *copy;
        copies_forget(s, copy);
        s->copies->woken.has_writer_socket = false;
        return true;
}

void restore_take_cleared(struct session *s, const struct session_details *details)
{
        bool is_known = choose(s, details->ended->copy);

        meter_replace(&s->meter, details->fds);
        if (s->copies->back != BACK_NOT && s->copies->wanted != s->copies->woken.id)
                s->copies->back = BACK_NOT;
        s->copies->is_restoring = !copies_is_rolling_block_back(s);
        session_enter(s, SESSION_DRAINING);
        pictures_give_up(s);
        channel_drain(&s->channel);
        streams_drain(&s->streams);
        if (copies_is_rolling_block_back(s))
                note_block(s, details->ended);
        else if (s->copies->back == BACK_NOT)
                note_death(s, details->ended);
        else
                note_way_back(s, details->ended);
        block_forget(s);
        calls_drop_all(s);
        files_fail_all(s, "its interpreter has ended and was restored");
        s->catalogue = 0;
        if (!is_known || s->copies->n_idle > RESTORE_IDLE_MAX || channel_reset(&s->channel) < 0) {
                session_kill_sandbox(s, END_CLOSED, OUTCOME_CLOSED);
                return;
        }
        s->copies->rolls_back = transaction_is_rolling_back(s);
        session_enter(s, SESSION_WAKING);
        sandbox_request(&s->context->requests, MONITOR_SESSION_WAKE, s->target,
                        s->copies->rolls_back);
}

/* "restored to the end of cell 7: its variables; …" */
static void describe_restore(const struct session *s, yyjson_val *root, char to[CELL_WHY_MAX])
{
        const struct copy *copy = &s->copies->woken;
        bool by_name = s->copies->back == BACK_CELL || s->copies->back == BACK_OWNER;
        char name[SESSION_NAME_MAX + 32] = "";

        if (by_name && copy->name[0])
                snprintf(name, sizeof(name), "checkpoint \"%s\", ", copy->name);
        snprintf(to, CELL_WHY_MAX, "%srestored to %sthe end of cell %llu: its variables",
                 s->copies->back == BACK_UNDO ? "undo(): " : "", name,
                 (unsigned long long)copy->of);
        rollback_append_gone(root, to, CELL_WHY_MAX);
        text_append(to, CELL_WHY_MAX, "; files stay");
        rollback_append_changed(yyjson_obj_get(root, "files"), yyjson_obj_get(root, "files_total"),
                                to, CELL_WHY_MAX);
}

int restore_on_restored(struct session *s, const struct frame_header *header,
                        struct frame_body *body, struct error *err)
{
        struct cell *cell = session_current(s);
        char text[CELL_WHY_MAX];
        yyjson_val *root;

        if (header->id != s->copies->woken.id)
                return error_set(err, EPROTO, "RESTORED %llu, the copy is of KEEP %llu",
                                 (unsigned long long)header->id,
                                 (unsigned long long)s->copies->woken.id);
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        if (copies_is_rolling_block_back(s)) {
                block_note(s, root);
                session_dispatch(s, EVENT_RESTORED, NULL);
                return 0;
        }
        if (s->copies->rolls_back && cell)
                rollback_describe("call", cell->outcome.calls_total > 0, root, text);
        else
                describe_restore(s, root, text);
        if (cell)
                memcpy(cell->outcome.restored, text, sizeof(text));
        else
                text_append(s->copies->lost, sizeof(s->copies->lost), "%s%s",
                            s->copies->lost[0] ? "; " : "", text);
        session_dispatch(s, EVENT_RESTORED, NULL);
        return 0;
}

/* Its cell continues. */
static void take_block(struct session *s)
{
        /* The worker got an interrupt that it has not passed on. */
        bool again = s->stop_status != CELL_OK && !s->block->is_interrupted;

        s->copies->rolls_back = false;
        s->copies->wanted = 0;
        s->copies->back = BACK_NOT;
        session_resume_cell(s);
        if (again)
                sandbox_request(&s->context->requests, MONITOR_SESSION_INTERRUPT, s->target, false);
}

/* Another copy of the same state is made at once, to replace the one that was woken: a cell that waits
 * could end the worker again. */
void restore_take_restored(struct session *s, const struct session_details *details)
{
        if (copies_is_rolling_block_back(s)) {
                take_block(s);
                return;
        }
        struct cell *cell = session_current(s), *next = cell ? cell->next : s->queue.first;
        struct copies *copy = s->copies;

        if (copy->back == BACK_CELL && next && strcmp(next->restore, copy->woken.name) == 0)
                next->restore[0] = '\0';
        if (copy->is_told)
                copy->note[0] = '\0';
        copy->is_awaited = copy->is_offered = copy->is_told = copy->is_restoring = false;
        copy->wanted = 0;
        copy->back = BACK_NOT;
        session_thaw(s); /* init runs all processes again */
        s->transaction->state = TRANSACTION_NONE;
        s->copies->state_of = copy->woken.of;
        s->stop_status = CELL_OK;
        s->history.used_us = clock_us();
        if (cell) {
                cell->outcome.state = copy->rolls_back ? CELL_STATE_ROLLED_BACK
                                                       : CELL_STATE_RESTORED;
                /* Files that it had created were removed. */
                if (copy->rolls_back)
                        cell->outcome.n_files = cell->outcome.files_total = 0;
                if (cell->checkpoint[0])
                        copies_say_no_checkpoint(cell, copy->rolls_back
                                                               ? "the code failed"
                                                               : "the interpreter ended before");
                session_end_cell(s, cell);
        }
        copy->rolls_back = false;
        copies_keep(s, copy->woken.name);
        session_wake(s);
}

void restore_give_up(struct session *s, const struct session_details *details)
{
        session_kill_sandbox(s, END_CLOSED, OUTCOME_LATE);
}
