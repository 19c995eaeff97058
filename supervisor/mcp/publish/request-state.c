/* States of calls that wait for answers of modern clients. */
#include "supervisor/mcp/publish/request-state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "supervisor/service/node.h"

static_assert(REQUEST_ARGUMENTS_MAX + ANSWERS_BYTES_MAX + QUESTIONS_BYTES_MAX <
                      REQUEST_STATES_BYTES_MAX,
              "a state that is alone fits");

struct request_state {
        TAILQ_ENTRY(request_state) link;
        char id[NODE_MINTED_MAX + 1];
        struct request_call call;
        uint64_t until_us;
        size_t bytes;
};

/* The list is made when it is first used: principals are plain memory. */
static void prepare(struct request_states *states)
{
        if (!states->list.tqh_last)
                TAILQ_INIT(&states->list);
}

void request_call_done(struct request_call *call)
{
        buffer_done(&call->name);
        buffer_done(&call->arguments);
        buffer_done(&call->answers);
        buffer_done(&call->questions);
}

static void drop(struct request_states *states, struct request_state *state)
{
        TAILQ_REMOVE(&states->list, state, link);
        states->n--;
        states->bytes -= state->bytes;
        request_call_done(&state->call);
        free(state);
}

void request_states_done(struct request_states *states)
{
        prepare(states);
        while (!TAILQ_EMPTY(&states->list))
                drop(states, TAILQ_FIRST(&states->list));
}

static void make_room(struct request_states *states, size_t bytes)
{
        uint64_t now = clock_us();

        prepare(states);
        while (!TAILQ_EMPTY(&states->list)) {
                struct request_state *oldest = TAILQ_FIRST(&states->list);
                if (states->n < REQUEST_STATES_MAX &&
                    states->bytes + bytes <= REQUEST_STATES_BYTES_MAX && oldest->until_us > now)
                        return;
                drop(states, oldest);
        }
}

static int append(struct buffer *to, const struct buffer *from)
{
        return from->length > 0 ? buffer_append(to, buffer_bytes(from), from->length) : 0;
}

static int copy(struct buffer *to, const struct buffer *from)
{
        buffer_init(to, from->length + 1);
        return append(to, from);
}

int request_state_keep(struct request_states *states, const struct request_call *call,
                       struct buffer *to)
{
        size_t bytes = call->arguments.length + call->answers.length + call->questions.length +
                       call->name.length;

        if (call->arguments.length > REQUEST_ARGUMENTS_MAX ||
            call->answers.length > ANSWERS_BYTES_MAX ||
            call->questions.length > QUESTIONS_BYTES_MAX)
                return -EMSGSIZE;
        make_room(states, bytes);
        struct request_state *state = calloc(1, sizeof(*state));
        if (!state)
                return -ENOMEM;
        node_mint(state->id);
        state->call = (struct request_call){.method = call->method, .rounds = call->rounds};
        state->until_us = clock_us() + REQUEST_STATE_MS * UINT64_C(1000);
        state->bytes = bytes;
        TAILQ_INSERT_TAIL(&states->list, state, link);
        states->n++;
        states->bytes += bytes;
        int r = copy(&state->call.name, &call->name);
        if (r >= 0)
                r = copy(&state->call.arguments, &call->arguments);
        if (r >= 0)
                r = copy(&state->call.answers, &call->answers);
        if (r >= 0)
                r = copy(&state->call.questions, &call->questions);
        if (r >= 0)
                r = json_append_string(to, state->id, strlen(state->id));
        if (r < 0)
                drop(states, state);
        return r;
}

static bool same(const struct buffer *a, const struct buffer *b)
{
        return a->length == b->length &&
               (a->length == 0 || memcmp(buffer_bytes(a), buffer_bytes(b), a->length) == 0);
}

int request_state_find(struct request_states *states, struct request_call *call, const char *name,
                       size_t n)
{
        struct request_state *state;

        prepare(states);
        TAILQ_FOREACH (state, &states->list, link) {
                if (n == strlen(state->id) && memcmp(state->id, name, n) == 0)
                        break;
        }
        if (!state || strcmp(state->call.method, call->method) != 0 ||
            clock_us() > state->until_us || !same(&state->call.name, &call->name) ||
            !same(&state->call.arguments, &call->arguments))
                return -ENOENT;
        call->rounds = state->call.rounds;
        int r = append(&call->answers, &state->call.answers);
        return r < 0 ? r : append(&call->questions, &state->call.questions);
}
