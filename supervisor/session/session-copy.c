/*
 * The sleeping copies of a session's worker: each is made while no cell runs, and can take the place of
 * the worker (docs/cells.md).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/config.h"
#include "supervisor/session/session-internal.h"

enum { PID_MAX = 1 << 22, KEEP_SIZE = 64 + 12 * SESSION_COPIES_MAX };

struct session_copy *session_newest_copy(struct session *s)
{
        for (size_t i = s->copy.n; i > 0; i--) {
                if (!s->copy.list[i - 1].is_aside)
                        return &s->copy.list[i - 1];
        }
        return NULL;
}

void session_forget_copy(struct session *s, struct session_copy *copy)
{
        size_t i = (size_t)(copy - s->copy.list);

        session_close_door(copy);
        s->copy.n--;
        memmove(&s->copy.list[i], &s->copy.list[i + 1], (s->copy.n - i) * sizeof(s->copy.list[0]));
}

void session_forget_copies(struct session *s)
{
        while (s->copy.n > 0)
                session_forget_copy(s, &s->copy.list[s->copy.n - 1]);
        session_close_door(&s->copy.asked);
}

static struct session_copy *find_pid(struct session *s, uint32_t pid)
{
        for (size_t i = 0; i < s->copy.n; i++) {
                if (s->copy.list[i].pid == pid)
                        return &s->copy.list[i];
        }
        return NULL;
}

bool session_copy_is_due(const struct session *s)
{
        return s->profile && s->profile->survives && !s->single && s->n_run > 0 &&
               s->copy.asked_after != s->last_number && !s->copy.is_awaited && !s->copy.is_offered;
}

/* {"copies": [their pids]}: the worker counts them to none of the code's processes. */
static int write_keep(const struct session *s, int64_t files, char to[KEEP_SIZE])
{
        int n = snprintf(to, KEEP_SIZE, "{\"copies\":[");

        for (size_t i = 0; i < s->copy.n; i++)
                n += snprintf(to + n, KEEP_SIZE - (size_t)n, "%s%u", i > 0 ? "," : "",
                              s->copy.list[i].pid);
        n += snprintf(to + n, KEEP_SIZE - (size_t)n, "]");
        if (files >= 0)
                n += snprintf(to + n, KEEP_SIZE - (size_t)n, ",\"files\":%lld", (long long)files);
        return n + snprintf(to + n, KEEP_SIZE - (size_t)n, "}");
}

bool session_send_keep(struct session *s, const char *name, int64_t files)
{
        struct session_copy *asked = &s->copy.asked;
        char payload[KEEP_SIZE];

        session_close_door(asked);
        *asked = (struct session_copy){.id = asked->id + 1, .of = s->state_of};
        snprintf(asked->name, sizeof(asked->name), "%s", name);
        if (*name)
                session_send_door(s, asked);
        int n = write_keep(s, files, payload);
        s->copy.is_awaited = channel_send(&s->channel, FRAME_KEEP, asked->id, payload, (size_t)n) >=
                             0;
        return s->copy.is_awaited;
}

void session_ask_copy(struct session *s, const char *name)
{
        bool is_sent = session_send_keep(s, name, -1);

        s->copy.asked_after = s->last_number;
        session_enter(s, SESSION_KEEPING);
        if (!is_sent)
                session_give_up_keeping(s, NULL);
}

/* The copy was to be a checkpoint. */
static void note_no_checkpoint(struct session *s, const char *why)
{
        struct cell *cell = session_current(s);

        if (cell)
                session_say_no_checkpoint(cell, why);
        else
                snprintf(s->copy.note, sizeof(s->copy.note),
                         "checkpoint \"%s\" cannot be restored again: %s", s->copy.asked.name, why);
        s->copy.asked.name[0] = '\0';
}

/* There is no copy of the last cell. why: what the worker or the monitor says; NULL: a cell came
 * first, and the next copy is tried after it. */
static void note_refusal(struct session *s, const char *why)
{
        struct session_copies *copy = &s->copy;
        const struct session_copy *newest = session_newest_copy(s);

        if (copy->asked.name[0]) {
                note_no_checkpoint(s, why ? why : "a cell came first");
                return;
        }
        if (!why || copy->is_told)
                return;
        if (newest)
                snprintf(
                        copy->note, sizeof(copy->note),
                        "%s: if the interpreter ends, the session goes back to the end of cell %llu",
                        why, (unsigned long long)newest->of);
        else
                snprintf(copy->note, sizeof(copy->note),
                         "%s: if the interpreter ends, the session's state is lost", why);
        copy->is_told = true;
}

void session_copy_note(struct session *s, struct cell *cell)
{
        struct cell_outcome *o = &cell->outcome;

        memcpy(o->note, s->copy.note, sizeof(o->note));
        s->copy.note[0] = '\0';
        if (s->copy.lost[0] != '\0') {
                o->state = CELL_STATE_RESTORED;
                memcpy(o->restored, s->copy.lost, sizeof(o->restored));
        }
        s->copy.lost[0] = '\0';
}

/* The worker's reason is a word of a list. */
const char *session_copy_refusal(const char *why)
{
        static const struct {
                const char *why, *text;
        } list[] = {
                {"threads",
                 "no copy of the state can be made while a library has threads of its own"},
                {"processes",
                 "no copy of the state can be made: limits.pids allows no more processes"},
                {"failed", "no copy of the state could be made"},
                {"names", "/workspace has more than 20,000 files and directories"},
                {"bytes", "the files in /workspace are larger than what a copy of them may take"},
                {"depth", "directories in /workspace are nested more than 64 deep"},
                {"time", "copying /workspace took too long"},
                {"memory", "the sandbox has no memory for a copy of /workspace"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                if (strcmp(why, list[i].why) == 0)
                        return list[i].text;
        }
        return NULL;
}

/* Offers the monitor the copy that was asked for, in place of the one without a name, and of that with
 * its name. */
static void offer(struct session *s)
{
        struct session_copies *copy = &s->copy;

        memset(copy->instead, 0, sizeof(copy->instead));
        for (size_t i = 0; i < copy->n; i++) {
                if (copy->list[i].is_aside)
                        continue;
                if (copy->list[i].name[0] == '\0')
                        copy->instead[0] = copy->list[i].pid;
                else if (strcmp(copy->list[i].name, copy->asked.name) == 0)
                        copy->instead[1] = copy->list[i].pid;
        }
        copy->is_offered = true;
        s->context->requests.keep(s->context->requests.data, s->target, copy->asked.pid,
                                  copy->instead);
}

int session_on_kept(struct session *s, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        int64_t pid = 0;
        yyjson_val *root;

        if (!s->copy.is_awaited || header->id != s->copy.asked.id)
                return error_set(err, EPROTO, "KEPT %llu, which no KEEP asked for",
                                 (unsigned long long)header->id);
        int r = frame_body_parse(body, header, &root, err);
        if (r < 0)
                return r;
        const char *why = json_string(root, "why", NULL);
        if (!why && (json_int64(yyjson_obj_get(root, "pid"), &pid) < 0 || pid < 2 || pid > PID_MAX))
                return error_set(err, EBADMSG, "KEPT without a pid");
        s->copy.is_awaited = false;
        const char *text = why ? session_copy_refusal(why) : NULL;
        if (s->copy.asked.is_aside) {
                session_block_kept(s, (uint32_t)pid,
                                   why && !text ? session_copy_refusal("failed") : text);
                return 0;
        }
        if (!why) {
                s->copy.asked.pid = (uint32_t)pid;
                offer(s);
                return 0;
        }
        if (s->transaction.state == TRANSACTION_ASKED)
                session_end_asking(s, text ? text : session_copy_refusal("failed"));
        else
                note_refusal(s, text);
        session_dispatch(s, EVENT_COPY, NULL);
        return 0;
}

/* The monitor and init have taken the copy that was asked for. */
static void add_copy(struct session *s)
{
        struct session_copies *copy = &s->copy;
        struct cell *cell = session_current(s);
        struct session_copy *replaced;

        for (size_t i = 0; i < ARRAY_SIZE(copy->instead); i++) {
                replaced = find_pid(s, copy->instead[i]);
                if (replaced)
                        session_forget_copy(s, replaced);
        }
        copy->asked.made_us = clock_us();
        if (copy->n < ARRAY_SIZE(copy->list))
                copy->list[copy->n++] = copy->asked;
        copy->asked.has_door = false; /* it is that of the list */
        if (copy->is_told)
                copy->note[0] = '\0';
        copy->is_told = false;
        if (cell && copy->asked.name[0])
                cell->outcome.is_checkpoint = true;
}

void session_kept(struct session *s, const struct error *error)
{
        struct session_copies *copy = &s->copy;
        const char *why = NULL;

        if (!s->copy.is_offered)
                return;
        s->copy.is_offered = false;
        if (error)
                why = error->code == ENOMEM
                              ? "no copy of the state is kept: all copies together are larger than limits.memory"
                              : session_copy_refusal("failed");
        if (copy->asked.is_aside) {
                session_block_taken(s, why);
                return;
        }
        if (!why)
                add_copy(s);
        if (s->transaction.state == TRANSACTION_ASKED)
                session_end_asking(s, why);
        else if (why)
                note_refusal(s, why);
        session_block_retry(s);
        session_dispatch(s, EVENT_COPY, NULL);
}

/* Code of the session has ended a copy. */
void session_gone(struct session *s, uint32_t pid)
{
        struct session_copy *copy = find_pid(s, pid);

        if (!copy)
                return;
        bool is_wanted = copy->id == s->copy.wanted;
        if (copy->name[0] && s->copy.note[0] == '\0')
                snprintf(s->copy.note, sizeof(s->copy.note),
                         "checkpoint \"%s\" is gone: its process has ended", copy->name);
        session_forget_copy(s, copy);
        if (is_wanted)
                session_dispatch(s, EVENT_GONE, NULL);
}

/* A cell that has asked for a checkpoint ends only now. */
void session_leave_keeping(struct session *s, const struct session_details *details)
{
        struct cell *cell = session_current(s);

        session_enter(s, SESSION_IDLE);
        if (cell)
                session_end_cell(s, cell);
        session_wake(s);
}

/* A late answer of the worker still makes a copy, but no checkpoint. */
void session_give_up_keeping(struct session *s, const struct session_details *details)
{
        if (s->copy.asked.name[0] && !s->copy.is_offered)
                note_no_checkpoint(s, "a background task keeps the interpreter busy");
        if (s->transaction.state == TRANSACTION_ASKED)
                session_end_asking(s, "the interpreter is busy with a background task");
        session_leave_keeping(s, details);
}
