/* States of calls that wait for answers: whose they are, how long, how many. */
#include "supervisor/mcp/publish/request-state.h"

#include "base/clock.h"
#include "base/unguessable.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

static struct buffer name, other_name, arguments, other_arguments, answers, questions, large;

static void fill(struct buffer *b, const char *text)
{
        buffer_init(b, 8 * 1024 * 1024);
        check_eq_int(buffer_append(b, text, strlen(text)), 0);
}

static void fill_large(size_t n)
{
        buffer_init(&large, 8 * 1024 * 1024);
        check_eq_int(buffer_reserve(&large, n), 0);
        memset(buffer_tail(&large), 'x', n);
        buffer_produced(&large, n);
}

static struct request_call call_of(void)
{
        return (struct request_call){.method = "tools/call",
                                     .name = name,
                                     .arguments = arguments,
                                     .answers = answers,
                                     .questions = questions,
                                     .rounds = 3};
}

static void setup(void)
{
        fake_clock_stop(true);
        fill(&name, "ask");
        fill(&other_name, "both");
        fill(&arguments, "{\"x\":1}");
        fill(&other_arguments, "{\"x\":2}");
        fill(&answers, "\"a\":{}");
        fill(&questions, "{\"q\":{}}");
        buffer_init(&large, 8 * 1024 * 1024);
}

static void teardown(void)
{
        struct buffer *all[] = {&name,    &other_name, &arguments, &other_arguments,
                                &answers, &questions,  &large};

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                buffer_done(all[i]);
        fake_clock_stop(false);
}

/* The name without its quotes. */
static int keep(struct request_states *states, const struct request_call *call,
                char id[UNGUESSABLE_LENGTH + 1])
{
        struct buffer to = BUFFER_INIT(1024);
        int r = request_state_keep(states, call, &to);

        if (r >= 0) {
                check_eq_int(to.length, UNGUESSABLE_LENGTH + 2);
                memcpy(id, buffer_bytes(&to) + 1, UNGUESSABLE_LENGTH);
                id[UNGUESSABLE_LENGTH] = '\0';
        }
        buffer_done(&to);
        return r;
}

static int find_n(struct request_states *states, const struct request_call *call, const char *id,
                  size_t n)
{
        struct request_call found = *call;

        found.rounds = 0;
        buffer_init(&found.answers, 8 * 1024 * 1024);
        buffer_init(&found.questions, 8 * 1024 * 1024);
        int r = request_state_find(states, &found, id, n);
        if (r >= 0) {
                check_eq_int(found.rounds, 3);
                check_eq_int(found.answers.length, answers.length);
                check_eq_int(found.questions.length, questions.length);
        }
        buffer_done(&found.answers);
        buffer_done(&found.questions);
        return r;
}

static int find(struct request_states *states, const struct request_call *call, const char *id)
{
        return find_n(states, call, id, strlen(id));
}

static void test_whose_it_is(void)
{
        struct request_states states = {}, of_another = {};
        struct request_call call, changed;
        char id[UNGUESSABLE_LENGTH + 1];

        setup();
        call = call_of();
        check_eq_int(find(&states, &call, "0123456789abcdef0123456789abcdef"), -ENOENT);
        check_eq_int(keep(&states, &call, id), 0);
        check_eq_int(find(&states, &call, id), 0);
        check_eq_int(find(&states, &call, id), 0); /* sent again */
        check_eq_int(find(&of_another, &call, id), -ENOENT);
        changed = call;
        changed.method = "prompts/get";
        check_eq_int(find(&states, &changed, id), -ENOENT);
        changed = call;
        changed.name = other_name;
        check_eq_int(find(&states, &changed, id), -ENOENT);
        changed = call;
        changed.arguments = other_arguments;
        check_eq_int(find(&states, &changed, id), -ENOENT);
        check_eq_int(find(&states, &call, id), 0);
        request_states_done(&states);
        request_states_done(&of_another);
        teardown();
}

/* Each bit flipped, each length, a NUL in it, and a megabyte. */
static void test_forged(void)
{
        struct request_states states = {};
        char id[UNGUESSABLE_LENGTH + 1], forged[UNGUESSABLE_LENGTH + 1];

        setup();
        struct request_call call = call_of();
        check_eq_int(keep(&states, &call, id), 0);
        for (size_t bit = 0; bit < UNGUESSABLE_LENGTH * 8; bit++) {
                memcpy(forged, id, sizeof(forged));
                forged[bit / 8] = (char)(forged[bit / 8] ^ (1 << bit % 8));
                check_eq_int(find_n(&states, &call, forged, UNGUESSABLE_LENGTH), -ENOENT);
        }
        for (size_t n = 0; n < UNGUESSABLE_LENGTH; n++)
                check_eq_int(find_n(&states, &call, id, n), -ENOENT);
        check_eq_int(find_n(&states, &call, id, UNGUESSABLE_LENGTH + 1), -ENOENT);
        fill_large(1024 * 1024);
        memcpy(large.data + large.start, id, UNGUESSABLE_LENGTH);
        check_eq_int(find_n(&states, &call, buffer_bytes(&large), large.length), -ENOENT);
        check_eq_int(find(&states, &call, id), 0);
        request_states_done(&states);
        teardown();
}

static void test_time(void)
{
        struct request_states states = {};
        char id[UNGUESSABLE_LENGTH + 1];

        setup();
        struct request_call call = call_of();
        check_eq_int(keep(&states, &call, id), 0);
        fake_clock_advance_ms(REQUEST_STATE_MS);
        check_eq_int(find(&states, &call, id), 0);
        fake_clock_advance_ms(1);
        check_eq_int(find(&states, &call, id), -ENOENT);
        /* It makes room for the next one. */
        check_eq_int(keep(&states, &call, id), 0);
        check_eq_int(states.n, 1);
        check_eq_int(find(&states, &call, id), 0);
        request_states_done(&states);
        teardown();
}

static void test_number(void)
{
        struct request_states states = {};
        char ids[REQUEST_STATES_MAX + 1][UNGUESSABLE_LENGTH + 1];

        setup();
        struct request_call call = call_of();
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                check_eq_int(keep(&states, &call, ids[i]), 0);
        check_eq_int(states.n, REQUEST_STATES_MAX);
        check_eq_int(find(&states, &call, ids[0]), -ENOENT);
        check_eq_int(find(&states, &call, ids[1]), 0);
        for (size_t i = 0; i < 10000; i++)
                check_eq_int(keep(&states, &call, ids[0]), 0);
        check_eq_int(states.n, REQUEST_STATES_MAX);
        request_states_done(&states);
        check_eq_int(states.n, 0);
        check_eq_int(states.bytes, 0);
        teardown();
}

static void test_bytes(void)
{
        struct request_states states = {};
        char first[UNGUESSABLE_LENGTH + 1], id[UNGUESSABLE_LENGTH + 1];

        setup();
        struct request_call call = call_of();
        fill_large(REQUEST_ARGUMENTS_MAX);
        call.arguments = large;
        check_eq_int(keep(&states, &call, first), 0);
        for (size_t i = 0; i < 10; i++) {
                check_eq_int(keep(&states, &call, id), 0);
                check(states.bytes <= REQUEST_STATES_BYTES_MAX);
        }
        check_eq_int(find(&states, &call, first), -ENOENT);
        check_eq_int(find(&states, &call, id), 0);
        /* One byte more of anything. */
        check_eq_int(buffer_append(&large, "x", 1), 0);
        call.arguments = large;
        check_eq_int(keep(&states, &call, id), -EMSGSIZE);
        buffer_consume(&large, large.length - ANSWERS_BYTES_MAX - 1);
        call = call_of();
        call.answers = large;
        check_eq_int(keep(&states, &call, id), -EMSGSIZE);
        buffer_done(&large);
        fill_large(QUESTIONS_BYTES_MAX + 1);
        call = call_of();
        call.questions = large;
        check_eq_int(keep(&states, &call, id), -EMSGSIZE);
        buffer_consume(&large, 1);
        call.questions = large;
        check_eq_int(keep(&states, &call, id), 0);
        check(states.bytes <= REQUEST_STATES_BYTES_MAX);
        request_states_done(&states);
        teardown();
}

int main(void)
{
        run(test_whose_it_is);
        run(test_forged);
        run(test_time);
        run(test_number);
        run(test_bytes);
        return 0;
}
