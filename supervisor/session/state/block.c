/* Opens, ends and rolls back blocks. */
#include "supervisor/session/state/block.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/session/state/copies.h"

static const struct copy_requester requester;

static void ask(struct session *s)
{
        struct block *b = s->block;

        if (!copies_request(s, &requester, "", copies_snapshot_bytes(s))) {
                b->state = BLOCK_NONE;
                answer_refuse(&s->channel, b->query,
                              "the interpreter does not read what it is sent");
                return;
        }
        b->state = BLOCK_ASKED;
        answer_confirm(&s->channel, b->query);
        b->query = 0;
}

/* The worker has made the copy, and the monitor has not answered. */
static bool is_offered(const struct session *s)
{
        return s->block->state == BLOCK_ASKED && s->copies->is_offered;
}

/* NULL: a block may begin, maybe when the monitor has answered about the copy of one that was left. */
static const char *why_not(const struct session *s)
{
        const struct block *b = s->block;

        if (s->state != SESSION_RUNNING)
                return "a block begins only while a call runs that is not being stopped";
        if (is_offered(s) && b->is_left && b->query == 0)
                return NULL;
        if (s->copies->is_awaited)
                return "an earlier copy is still being made";
        if (b->state != BLOCK_NONE)
                return "another block has begun: transactions are not nested";
        if (!s->profile || !s->profile->survives)
                return "the profile keeps no copies of the state (state.survives)";
        return NULL;
}

static void begin(struct session *s, uint64_t query, yyjson_val *root)
{
        struct block *b = s->block;
        const char *why = why_not(s);

        if (why) {
                answer_refuse(&s->channel, query, why);
        } else if (is_offered(s)) {
                b->query = query;
        } else {
                *b = (struct block){.state = BLOCK_WAITING, .query = query};
                if (!s->copies->is_offered)
                        ask(s);
        }
}

/* The worker waits for the monitor's answer. */
static void await(struct session *s, uint64_t query, yyjson_val *root)
{
        struct block *b = s->block;

        if (b->state == BLOCK_OPEN) {
                answer_confirm(&s->channel, query);
        } else if (is_offered(s) && b->query == 0 && !b->is_left) {
                b->query = query;
        } else {
                bool is_refused = b->state == BLOCK_REFUSED;
                answer_refuse(&s->channel, query, is_refused ? b->why : "no block has begun");
                b->state = is_refused ? BLOCK_NONE : b->state;
        }
}

static void drop(struct session *s, struct copy *copy)
{
        if (!copy)
                return;
        sandbox_request(&s->context->requests, MONITOR_SESSION_DROP, s->target, copy->pid);
        copies_forget(s, copy);
}

void block_end(struct session *s)
{
        struct block *b = s->block;

        if (b->state == BLOCK_OPEN)
                drop(s, copies_find(s, b->copy));
        if (b->is_left)
                b->query = 0;
        b->is_left = true;
        if (b->state != BLOCK_ASKED)
                b->state = BLOCK_NONE;
}

static void fail(struct session *s, uint64_t query, yyjson_val *root)
{
        struct block *b = s->block;
        const struct copy *copy = copies_find(s, b->copy);
        bool runs = s->state == SESSION_RUNNING || s->state == SESSION_INTERRUPTING;

        if (!runs || b->state != BLOCK_OPEN || !copy) {
                answer_refuse(&s->channel, query,
                              runs && b->state == BLOCK_OPEN ? COPIES_NOT_TAKEN_BACK
                                                             : "no block has begun");
                block_end(s);
                return;
        }
        s->block->is_interrupted = yyjson_is_true(yyjson_obj_get(root, "interrupted"));
        copies_go_back(s, copy, BACK_BLOCK, query);
}

int block_on_query(struct session *s, uint64_t query, yyjson_val *root, struct error *err)
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
        block_end(s);
        return 0;
}

/* ---- its copy ---- */

/* A block that was left is over, and its copy dropped. Another one may have been asked for meanwhile. */
static void end_left(struct session *s)
{
        uint64_t next = s->block->query;

        s->block->query = 0;
        block_end(s);
        if (next != 0)
                begin(s, next, NULL);
}

static void on_refused(struct session *s, const char *why)
{
        struct block *b = s->block;

        b->state = BLOCK_REFUSED;
        snprintf(b->why, sizeof(b->why), "%s", why ? why : COPIES_NOT_MADE);
        if (b->is_left)
                end_left(s);
        else if (b->query != 0)
                await(s, b->query, NULL);
}

static void on_taken(struct session *s)
{
        struct block *b = s->block;

        b->copy = s->copies->asked.id;
        b->began_us = s->copies->asked.made_us;
        b->state = BLOCK_OPEN;
        if (b->is_left)
                end_left(s);
        else if (b->query != 0)
                await(s, b->query, NULL);
}

static const struct copy_requester requester = {
        .of_block = true, .taken = on_taken, .refused = on_refused};

void block_retry(struct session *s, const struct session_details *details)
{
        if (s->block->state == BLOCK_WAITING && !s->copies->is_offered)
                ask(s);
}

/* ---- its rollback ---- */

void block_forget(struct session *s)
{
        for (size_t i = s->copies->n; i > 0; i--) {
                if (s->copies->list[i - 1].of_block)
                        copies_forget(s, &s->copies->list[i - 1]);
        }
        *s->block = (struct block){.began_us = s->block->began_us,
                                   .is_interrupted = s->block->is_interrupted};
}

void block_not_taken_back(struct session *s)
{
        answer_refuse(&s->channel, s->copies->query, COPIES_NOT_TAKEN_BACK);
        block_end(s);
}

/* The calls of the block are not taken back. Those without an answer are in doubt, also of tasks that
 * began them before it: the copy does not get their answers. */
static bool mark_calls(const struct session *s, struct cell_outcome *o)
{
        bool any = false;

        for (size_t i = 0; i < o->n_calls; i++) {
                struct cell_call *call = &o->calls[i];
                call->in_block |= call->used &&
                                  (call->pending || call->started_us >= s->block->began_us);
                any |= call->in_block;
        }
        return any;
}

void block_note(struct session *s, yyjson_val *root)
{
        struct cell_outcome *o = &session_current(s)->outcome;
        bool has_calls = mark_calls(s, o);
        char text[CELL_WHY_MAX];

        rollback_describe("block", has_calls, root, text);
        if (++o->n_blocks == 1)
                snprintf(o->block, sizeof(o->block), "transaction(): %s", text);
        else
                snprintf(o->block, sizeof(o->block),
                         "%llu blocks were taken back; the last one: %s",
                         (unsigned long long)o->n_blocks, text);
}
