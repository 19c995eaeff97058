/*
 * Blocks of a cell that are taken back if they fail: `with transaction():` (docs/cells.md).
 *
 * Theory of operation. The worker sends QUERY begin and gets a KEEP, while its cell runs. The copy that it
 * makes is aside: it takes the worker's place only if it is named. It holds a snapshot of /workspace, and
 * sleeps in the middle of the cell, where the block begins.
 *
 *     none ──begin──► asked ──KEPT──► offered ──the monitor has it──► open ──end──► none
 *     begin, while the monitor is asked about an earlier copy: waiting, until it has answered
 *     asked, offered ──no copy──► refused ──await──► none
 *     open ──fail──► the session is restoring, then waking: the copy is the worker, and the cell goes on
 *     a block that the worker leaves before it is open: its copy is dropped as soon as init has it, and
 *     another one that begins before waits for that
 *
 * A cell that ends with an open block has ended it. When the worker dies, init ends the copy with it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/config.h"
#include "supervisor/session/session-internal.h"

static void ask(struct session *s)
{
        struct session_block *b = &s->block;

        if (!session_send_keep(s, "", session_snapshot_bytes(s))) {
                b->state = BLOCK_NONE;
                calls_refuse(s, b->query, "the interpreter does not read what it is sent");
                return;
        }
        s->copy.asked.is_aside = true;
        b->state = BLOCK_ASKED;
        calls_confirm(s, b->query);
        b->query = 0;
}

/* NULL: a block may begin, maybe when the monitor has answered about the copy of one that was left. */
static const char *why_not(const struct session *s)
{
        const struct session_block *b = &s->block;

        if (s->state != SESSION_RUNNING)
                return "a block begins only while a call runs that is not being stopped";
        if (b->state == BLOCK_OFFERED && b->is_left && b->query == 0)
                return NULL;
        if (s->copy.is_awaited)
                return "an earlier copy is still being made";
        if (b->state != BLOCK_NONE)
                return "another block has begun: transactions are not nested";
        if (!s->profile || !s->profile->survives)
                return "the profile keeps no copies of the state (state.survives)";
        return NULL;
}

static void begin(struct session *s, uint64_t query, yyjson_val *root)
{
        struct session_block *b = &s->block;
        const char *why = why_not(s);

        if (why) {
                calls_refuse(s, query, why);
        } else if (b->state == BLOCK_OFFERED) {
                b->query = query;
        } else {
                *b = (struct session_block){.state = BLOCK_WAITING, .query = query};
                if (!s->copy.is_offered)
                        ask(s);
        }
}

/* The worker waits for the monitor's answer. */
static void answer(struct session *s, uint64_t query)
{
        struct session_block *b = &s->block;

        if (b->state == BLOCK_OPEN) {
                calls_confirm(s, query);
        } else if (b->state == BLOCK_OFFERED && b->query == 0 && !b->is_left) {
                b->query = query;
        } else {
                bool is_refused = b->state == BLOCK_REFUSED;
                calls_refuse(s, query, is_refused ? b->why : "no block has begun");
                b->state = is_refused ? BLOCK_NONE : b->state;
        }
}

static void await(struct session *s, uint64_t query, yyjson_val *root)
{
        answer(s, query);
}

static void drop(struct session *s, struct session_copy *copy)
{
        if (!copy)
                return;
        s->context->requests.drop(s->context->requests.data, s->target, copy->pid);
        session_forget_copy(s, copy);
}

void session_end_block(struct session *s)
{
        struct session_block *b = &s->block;

        if (b->state == BLOCK_OPEN)
                drop(s, session_find_copy(s, b->copy));
        if (b->is_left)
                b->query = 0;
        b->is_left = true;
        if (b->state != BLOCK_ASKED && b->state != BLOCK_OFFERED)
                b->state = BLOCK_NONE;
}

static void fail(struct session *s, uint64_t query, yyjson_val *root)
{
        struct session_block *b = &s->block;
        const struct session_copy *copy = session_find_copy(s, b->copy);
        bool runs = s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING;

        if (!runs || b->state != BLOCK_OPEN || !copy) {
                calls_refuse(s, query,
                             runs && b->state == BLOCK_OPEN ? SESSION_NOT_TAKEN_BACK
                                                            : "no block has begun");
                session_end_block(s);
                return;
        }
        s->block.is_interrupted = yyjson_is_true(yyjson_obj_get(root, "interrupted"));
        s->copy.query = query;
        s->copy.wanted = copy->id;
        s->copy.back = BACK_BLOCK;
        session_dispatch(s, EVENT_BACK, NULL);
}

int session_on_block(struct session *s, uint64_t query, yyjson_val *root, struct error *err)
{
        static const struct {
                const char *name;
                void (*handle)(struct session *s, uint64_t query, yyjson_val *root);
        } steps[] = {{"begin", begin}, {"await", await}, {"fail", fail}};
        const char *step = json_string(root, "step", NULL);

        for (size_t i = 0; step && i < ARRAY_SIZE(steps); i++) {
                if (strcmp(step, steps[i].name) == 0) {
                        steps[i].handle(s, query, root);
                        return 0;
                }
        }
        if (!step || strcmp(step, "end") != 0)
                return error_set(err, EBADMSG, "QUERY for an unknown step of a transaction");
        session_end_block(s);
        return 0;
}

/* ---- its copy ---- */

/* A block that was left is over, and its copy dropped. Another one may have been asked for meanwhile. */
static void end_left(struct session *s)
{
        uint64_t next = s->block.query;

        s->block.query = 0;
        session_end_block(s);
        if (next != 0)
                begin(s, next, NULL);
}

static void refuse(struct session *s, const char *why)
{
        struct session_block *b = &s->block;

        b->state = BLOCK_REFUSED;
        snprintf(b->why, sizeof(b->why), "%s", why);
        if (b->is_left)
                end_left(s);
        else if (b->query != 0)
                answer(s, b->query);
}

void session_block_kept(struct session *s, uint32_t pid, const char *why)
{
        struct session_block *b = &s->block;

        if (why) {
                refuse(s, why);
                return;
        }
        b->state = BLOCK_OFFERED; /* also if it was left: only init's copies can be dropped */
        s->copy.asked.pid = pid;
        s->copy.is_offered = true;
        s->context->requests.keep_aside(s->context->requests.data, s->target, pid);
}

void session_block_taken(struct session *s, const char *why)
{
        struct session_block *b = &s->block;
        struct session_copies *copy = &s->copy;

        if (why) {
                refuse(s, why);
                return;
        }
        copy->asked.made_us = clock_us();
        if (copy->n < ARRAY_SIZE(copy->list))
                copy->list[copy->n++] = copy->asked;
        b->copy = copy->asked.id;
        b->began_us = copy->asked.made_us;
        b->state = BLOCK_OPEN;
        if (b->is_left)
                end_left(s);
        else if (b->query != 0)
                answer(s, b->query);
}

void session_block_retry(struct session *s)
{
        if (s->block.state == BLOCK_WAITING && !s->copy.is_offered)
                ask(s);
}

/* ---- its rollback ---- */

bool session_is_rolling_block_back(const struct session *s)
{
        return s->copy.back == BACK_BLOCK && s->copy.woken.id == s->copy.wanted;
}

void session_forget_blocks(struct session *s)
{
        for (size_t i = s->copy.n; i > 0; i--) {
                if (s->copy.list[i - 1].is_aside)
                        session_forget_copy(s, &s->copy.list[i - 1]);
        }
        s->block = (struct session_block){.began_us = s->block.began_us,
                                          .is_interrupted = s->block.is_interrupted};
}

void session_block_not_taken_back(struct session *s)
{
        calls_refuse(s, s->copy.query, SESSION_NOT_TAKEN_BACK);
        session_end_block(s);
}

/* The calls of the block are not taken back. Those without an answer are in doubt, also of tasks that
 * began them before it: the copy does not get their answers. */
static bool mark_calls(const struct session *s, struct cell_outcome *o)
{
        bool any = false;

        for (size_t i = 0; i < o->n_calls; i++) {
                struct cell_call *call = &o->calls[i];
                call->in_block |= call->used &&
                                  (call->pending || call->started_us >= s->block.began_us);
                any |= call->in_block;
        }
        return any;
}

void session_note_block(struct session *s, yyjson_val *root)
{
        struct cell_outcome *o = &session_current(s)->outcome;
        bool has_calls = mark_calls(s, o);
        char text[CELL_WHY_MAX];

        session_describe_rollback("block", has_calls, root, text);
        if (++o->n_blocks == 1)
                snprintf(o->block, sizeof(o->block), "transaction(): %s", text);
        else
                snprintf(o->block, sizeof(o->block),
                         "%llu blocks were taken back; the last one: %s",
                         (unsigned long long)o->n_blocks, text);
}
