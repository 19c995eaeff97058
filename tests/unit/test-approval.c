/* The questions of a session: states, answers, grants, and calls that end meanwhile. */
#include "tests/unit/approval-world.h"

#include <time.h>

static void test_gather_is_one_question(void)
{
        struct world *w = &world;

        open_world(w);
        for (size_t i = 0; i < 40; i++)
                check_eq_int(add(w, i, 3), APPROVAL_WAITS);
        check_eq_int(w->n_holds, 1);
        check_eq_int(w->n_asked, 0);
        approvals_held(w->a);
        check_eq_int(w->n_asked, 1);
        check_eq_int(view_of(w).n_calls, 40);
        client_says(w, "{\"action\":\"accept\"}", 10);
        for (size_t i = 0; i < 40; i++)
                check_eq_int(w->outcome[i].state, 1);
        check(w->was_held_at_decision && !w->is_held);
        check_eq_str(w->events, "asked;answered client;");
        close_world(w);
}

static void test_later_call_waits_for_the_next_question(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        check_eq_int(add(w, 1, 1), APPROVAL_WAITS);
        check_eq_int(view_of(w).n_calls, 1);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"once\"}}", 10);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(w->outcome[1].state, 0);
        check_eq_int(approvals_state(w->a), APPROVAL_COLLECTING);
        approvals_held(w->a);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"no\"}}", 10);
        check_eq_int(w->outcome[1].state, -1);
        check_eq_str(w->outcome[1].why, "a person answered no");
        close_world(w);
}

static void test_first_answer_counts(void)
{
        struct world *w = &world;
        struct error err = {};
        const struct approval_answer yes = {.scope = SCOPE_ONCE};
        char id[64], sum[QUESTION_SHA_SIZE];

        open_world(w);
        ask_one(w, 0, 1);
        snprintf(id, sizeof(id), "%s", view_of(w).id);
        snprintf(sum, sizeof(sum), "%s", view_of(w).sha256);
        check_eq_int(terminal_says(w, SCOPE_NO, NULL, "not this address\n\033[2J"), 0);
        check_eq_str(w->outcome[0].why, "a person answered no: not this address\\x0a\\x1b[2J");
        check_eq_int(w->n_withdrawn, 1);
        check_eq_int(approvals_answer(&w->all, APPROVAL_BY_TERMINAL, id, sum, &yes, &err), -ENOENT);
        check_has(err.text, "it was answered, or has ended");
        /* The next question has another id. */
        ask_one(w, 1, 1);
        check(strcmp(view_of(w).id, id) != 0);
        check_eq_int(approvals_answer(&w->all, APPROVAL_BY_TERMINAL, id, sum, &yes, &err), -ENOENT);
        check_eq_int(w->outcome[1].state, 0);
        check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), 0);
        check_eq_int(w->outcome[1].state, 1);
        close_world(w);
}

static void test_answer_about_other_bytes_is_refused(void)
{
        struct world *w = &world;
        struct error err = {};
        const struct approval_answer yes = {.scope = SCOPE_ONCE};

        open_world(w);
        ask_one(w, 0, 1);
        check_eq_int(
                approvals_answer(&w->all, APPROVAL_BY_TERMINAL, view_of(w).id, "0123", &yes, &err),
                -EBADMSG);
        check_eq_int(w->outcome[0].state, 0);
        check_eq_str(w->events, "asked;refused terminal;");
        close_world(w);
}

static void test_answer_that_cannot_be_recorded_allows_nothing(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        w->is_unrecordable = true;
        check_eq_int(terminal_says(w, SCOPE_SESSION, NULL, NULL), 0);
        check_eq_int(w->outcome[0].state, -1);
        check(w->calls[0].is_unrecorded);
        check_has(w->outcome[0].why, "No space left on device");
        /* It gave no grant, and a no is a no. */
        check_eq_int(add(w, 1, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(terminal_says(w, SCOPE_NO, NULL, NULL), 0);
        check_eq_str(w->outcome[1].why, "a person answered no");
        check(!w->calls[1].is_unrecorded);
        w->is_unrecordable = false;
        ask_one(w, 2, 1);
        check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), 0);
        check_eq_int(w->outcome[2].state, 1);
        close_world(w);
}

static void test_refusal_at_once_is_not_a_persons(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        check_eq_int(w->wait_ms, 0);
        client_says(w, "{\"action\":\"decline\"}", 299);
        check_eq_int(w->outcome[0].state, 0);
        check(w->at_terminal);
        check_eq_int(w->wait_ms, 50000);
        check_eq_int(terminal_says(w, SCOPE_ONCE, NULL, NULL), 0);
        check_eq_int(w->outcome[0].state, 1);
        /* Later it is. */
        ask_one(w, 1, 1);
        client_says(w, "{\"action\":\"decline\"}", 301);
        check_eq_str(w->outcome[1].why, "a person answered no");
        /* Without a terminal nobody was asked. */
        w->settings.by_terminal = false;
        ask_one(w, 2, 1);
        client_says(w, "{\"action\":\"cancel\"}", 10);
        check_eq_str(w->outcome[2].why, "the client has not shown the question");
        close_world(w);
}

static void test_misfit_is_asked_again_once(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"maybe\"}}", 10);
        check_eq_int(w->n_asked, 2);
        check_eq_int(w->outcome[0].state, 0);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"maybe\"}}", 10);
        check_eq_int(w->outcome[0].state, -1);
        check_eq_int(w->n_asked, 2);
        close_world(w);
}

static void test_grants(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"cell\"}}", 10);
        check_eq_int(add(w, 1, 1), APPROVAL_ALLOWED);
        /* Another tool, rule, definition or cell asks. */
        check_eq_int(add_with(w, 2, 1, "read", "rule 1", 7), APPROVAL_WAITS);
        check_eq_int(add_with(w, 3, 1, "send", "rule 2", 7), APPROVAL_WAITS);
        check_eq_int(add_with(w, 4, 1, "send", "rule 1", 8), APPROVAL_WAITS);
        approvals_withdraw(w->a, "x");
        settle(w);
        check_eq_int(add(w, 5, 2), APPROVAL_WAITS);
        approvals_withdraw(w->a, "x");
        settle(w);
        approvals_end_cell(w->a, 1, "the cell has ended");
        settle(w);
        ask_one(w, 6, 1);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"session\"}}", 10);
        approvals_end_cell(w->a, 1, "the cell has ended");
        settle(w);
        check_eq_int(add(w, 7, 2), APPROVAL_ALLOWED);
        approvals_forget(w->a);
        check_eq_int(add(w, 8, 2), APPROVAL_WAITS);
        close_world(w);
}

/* 39 long calls fill the message; a tool that it does not show gets no grant from the client, and one from the terminal. */
static void test_no_grant_for_what_a_client_is_not_shown(void)
{
        static char json[4000];
        struct world *w = &world;

        memset(json, 'x', sizeof(json) - 1);
        for (int by_terminal = 0; by_terminal < 2; by_terminal++) {
                open_world(w);
                for (size_t i = 0; i < 40; i++) {
                        check_eq_int(add_with(w, i, 1, i < 39 ? "note" : "send", "rule 1", 7),
                                     APPROVAL_WAITS);
                        w->calls[i].call.json = json;
                        w->calls[i].call.n = sizeof(json) - 1;
                }
                approvals_held(w->a);
                if (by_terminal)
                        check_eq_int(terminal_says(w, SCOPE_SESSION, NULL, NULL), 0);
                else
                        client_says(w,
                                    "{\"action\":\"accept\",\"content\":{\"scope\":\"session\"}}",
                                    400);
                settle(w);
                check_eq_int(w->outcome[39].state, 1);
                check_eq_int(add_with(w, 40, 1, "note", "rule 1", 7), APPROVAL_ALLOWED);
                check_eq_int(add_with(w, 41, 1, "send", "rule 1", 7),
                             by_terminal ? APPROVAL_ALLOWED : APPROVAL_WAITS);
                close_world(w);
        }
}

/* Without "terminal" in "by": an agent that has the owner's shell cannot answer. */
static void test_terminal_that_is_not_asked(void)
{
        struct world *w = &world;

        open_world(w);
        w->settings.by_terminal = false;
        ask_one(w, 0, 1);
        check_eq_int(terminal_says(w, SCOPE_SESSION, NULL, NULL), -EACCES);
        check_eq_int(w->outcome[0].state, 0);
        client_says(w, "{\"action\":\"accept\"}", 400);
        check_eq_int(w->outcome[0].state, 1);
        close_world(w);
}

static void test_arguments_that_nobody_can_read(void)
{
        struct world *w = &world;
        const char *why = NULL;

        open_world(w);
        for (size_t more = 0; more < 2; more++) {
                w->outcome[more].state = 0;
                w->calls[more] = (struct approval_call){.cell = 1,
                                                        .call = {.server = "mail",
                                                                 .tool = "send",
                                                                 .json = "",
                                                                 .n = APPROVAL_BYTES_MAX + more,
                                                                 .rule = "rule 1"}};
                check_eq_int(approvals_add(w->a, &w->calls[more], &w->settings, &why),
                             more ? APPROVAL_DENIED : APPROVAL_WAITS);
        }
        check_eq_str(why, "arguments above 4 MiB are not shown to a person");
        w->calls[0].call.n = 0;
        close_world(w);
}

static void test_question_is_of_one_cell(void)
{
        struct world *w = &world;

        open_world(w);
        check_eq_int(add(w, 0, 1), APPROVAL_WAITS);
        check_eq_int(add(w, 1, 2), APPROVAL_WAITS);
        check_eq_int(add(w, 2, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(view_of(w).n_calls, 2);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"cell\"}}", 400);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(w->outcome[1].state, 0);
        close_world(w);
}

/* The cell ends after the answer, before anything was sent. */
static void test_end_between_answer_and_release(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        const struct question_view view = view_of(w);
        const struct approval_answer yes = {.scope = SCOPE_ONCE};
        struct error err = {};
        check_eq_int(
                approvals_answer(&w->all, APPROVAL_BY_TERMINAL, view.id, view.sha256, &yes, &err),
                0);
        approvals_end_cell(w->a, 1, "the cell has ended");
        settle(w);
        check_eq_int(w->outcome[0].state, -1);
        check_eq_str(w->outcome[0].why, "the cell has ended");
        close_world(w);
}

static void test_grant_covers_calls_that_wait(void)
{
        struct world *w = &world;

        open_world(w);
        for (size_t i = 0; i < CALLS; i++)
                check_eq_int(add(w, i, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        client_says(w, "{\"action\":\"accept\",\"content\":{\"scope\":\"session\"}}", 400);
        for (size_t i = 0; i < CALLS; i++)
                check_eq_int(w->outcome[i].state, 1);
        check_eq_int(approvals_state(w->a), APPROVAL_NONE);
        close_world(w);
}

static void test_rows(void)
{
        struct world *w = &world;
        const uint8_t rows[] = {1, 0, 1};

        open_world(w);
        for (size_t i = 0; i < 3; i++)
                check_eq_int(add(w, i, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(terminal_says(w, SCOPE_SESSION, rows, NULL), -EINVAL);
        check_eq_int(terminal_says(w, SCOPE_ONCE, rows, NULL), 0);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(w->outcome[1].state, -1);
        check_eq_int(w->outcome[2].state, 1);
        ask_one(w, 3, 1);
        check_eq_int(terminal_says(w, SCOPE_ONCE, rows, NULL), -EINVAL);
        check_eq_int(w->outcome[3].state, 0);
        close_world(w);
}

static void test_three_refusals_and_the_bound_of_a_cell(void)
{
        struct world *w = &world;

        open_world(w);
        for (size_t i = 0; i < 3; i++) {
                ask_one(w, i, 1);
                client_says(w, "{\"action\":\"decline\"}", 400);
        }
        check_eq_int(add(w, 3, 1), APPROVAL_DENIED);
        check_eq_str(w->outcome[3].why, "a person has answered no three times in this cell");
        check_eq_int(add_with(w, 4, 1, "send", "rule 2", 7), APPROVAL_WAITS);
        approvals_withdraw(w->a, "x");
        settle(w);
        ask_one(w, 5, 2);
        approvals_withdraw(w->a, "x");
        settle(w);

        w->settings.per_cell = 2;
        for (size_t i = 6; i < 8; i++) {
                ask_one(w, i, 3);
                client_says(w, "{\"action\":\"accept\"}", 400);
        }
        unsigned n = w->n_asked;
        check_eq_int(add(w, 8, 3), APPROVAL_WAITS);
        approvals_held(w->a);
        settle(w);
        check_eq_int(w->outcome[8].state, -1);
        check_has(w->outcome[8].why, "per_cell");
        check_eq_int(w->n_asked, n);
        close_world(w);
}

static void test_timeout_is_no(void)
{
        struct world *w = &world;

        open_world(w);
        ask_one(w, 0, 1);
        fake_clock_advance_ms(599000);
        event_base_loop(w->base, EVLOOP_NONBLOCK);
        check_eq_int(w->outcome[0].state, 0);
        fake_clock_advance_ms(2000);
        event_base_loop(w->base, EVLOOP_NONBLOCK);
        settle(w);
        check_eq_str(w->outcome[0].why, "no person has answered in time");
        check_eq_int(w->n_withdrawn, 1);
        close_world(w);
}

static void test_calls_cells_and_sessions_end(void)
{
        struct world *w = &world;
        char sum[QUESTION_SHA_SIZE];

        open_world(w);
        for (size_t i = 0; i < 3; i++)
                check_eq_int(add(w, i, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        snprintf(sum, sizeof(sum), "%s", view_of(w).sha256);
        approvals_drop(w->a, &w->calls[1]);
        check_eq_int(view_of(w).n_calls, 2);
        check(strcmp(sum, view_of(w).sha256) != 0);
        approvals_drop(w->a, &w->calls[0]);
        approvals_drop(w->a, &w->calls[2]);
        settle(w);
        check_eq_int(approvals_state(w->a), APPROVAL_NONE);
        check(!w->ask && !w->is_held);
        /* While they are collected. */
        check_eq_int(add(w, 3, 1), APPROVAL_WAITS);
        approvals_drop(w->a, &w->calls[3]);
        approvals_held(w->a);
        settle(w);
        check(!w->is_held);
        ask_one(w, 4, 1);
        check_eq_int(add(w, 5, 2), APPROVAL_WAITS);
        approvals_end_cell(w->a, 1, "the cell has ended");
        settle(w);
        check_eq_str(w->outcome[4].why, "the cell has ended");
        check_eq_int(w->outcome[5].state, 0);
        check_eq_int(w->n_withdrawn, 2);
        close_world(w);
}

static void test_more_calls_than_one_question_has(void)
{
        struct world *w = &world;

        open_world(w);
        for (size_t i = 0; i < CALLS; i++)
                check_eq_int(add(w, i, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(view_of(w).n_calls, APPROVAL_CALLS_MAX);
        client_says(w, "{\"action\":\"accept\"}", 400);
        approvals_held(w->a);
        check_eq_int(view_of(w).n_calls, CALLS - APPROVAL_CALLS_MAX);
        close_world(w);
}

static void test_what_waits_is_bounded(void)
{
        static char json[APPROVAL_BYTES_MAX];
        struct world *w = &world;
        const char *why = NULL;
        size_t n = 0;

        open_world(w);
        memset(json, 'x', sizeof(json));
        for (; n < CALLS; n++) {
                w->calls[n] = (struct approval_call){.cell = 1,
                                                     .call = {.server = "m",
                                                              .tool = "t",
                                                              .json = json,
                                                              .n = sizeof(json),
                                                              .rule = "r"}};
                w->outcome[n].state = 0;
                if (approvals_add(w->a, &w->calls[n], &w->settings, &why) != APPROVAL_WAITS)
                        break;
        }
        check_eq_int(n, APPROVAL_WAITING_MAX / (sizeof(json) + 1024));
        check_has(why, "too many calls");
        /* One call fits into a question. */
        approvals_held(w->a);
        check_eq_int(view_of(w).n_calls, 1);
        client_says(w, "{\"action\":\"accept\"}", 400);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_int(add(w, n, 1), APPROVAL_WAITS);
        approvals_drop(w->a, &w->calls[n]);
        close_world(w);
}

/* When a session ends, its calls are dropped one by one: that must not cost a digest of the others each time. */
static void test_many_calls_are_dropped(void)
{
        static char json[APPROVAL_BYTES_MAX / APPROVAL_CALLS_MAX];
        struct world *w = &world;
        char sum[QUESTION_SHA_SIZE], asked[QUESTION_SHA_SIZE], id[64];
        const char *why = NULL;

        open_world(w);
        memset(json, 'x', sizeof(json));
        for (size_t i = 0; i < APPROVAL_CALLS_MAX; i++) {
                w->calls[i] = (struct approval_call){.cell = 1,
                                                     .call = {.server = "m",
                                                              .tool = "t",
                                                              .json = json,
                                                              .n = sizeof(json),
                                                              .rule = "r"}};
                w->outcome[i].state = 0;
                check_eq_int(approvals_add(w->a, &w->calls[i], &w->settings, &why), APPROVAL_WAITS);
        }
        approvals_held(w->a);
        struct question_view view = view_of(w);
        check_eq_int(view.n_calls, APPROVAL_CALLS_MAX);
        snprintf(asked, sizeof(asked), "%s", view.sha256);
        clock_t began = clock();
        check_eq_int(question_digest(view.calls, view.n_calls, sum), 0);
        clock_t once = clock() - began;
        check_eq_str(sum, asked);
        began = clock();
        for (size_t i = 0; i < APPROVAL_CALLS_MAX - 1; i++)
                approvals_drop(w->a, &w->calls[i]);
        check(clock() - began < 20 * once);
        /* The control: the digest is that of the call that is left, and an answer must name it. */
        const struct approval_answer yes = {.scope = SCOPE_ONCE};
        struct error err = {};
        view = view_of(w);
        check_eq_int(view.n_calls, 1);
        check_eq_int(question_digest(view.calls, 1, sum), 0);
        snprintf(id, sizeof(id), "%s", view.id);
        check_eq_int(approvals_answer(&w->all, APPROVAL_BY_TERMINAL, id, asked, &yes, &err),
                     -EBADMSG);
        check_eq_int(approvals_answer(&w->all, APPROVAL_BY_TERMINAL, id, sum, &yes, &err), 0);
        settle(w);
        check_eq_int(w->outcome[APPROVAL_CALLS_MAX - 1].state, 1);
        close_world(w);
}

static void test_nobody_can_be_asked(void)
{
        struct world *w = &world;

        open_world(w);
        check_eq_int(add(w, 0, 0), APPROVAL_DENIED);
        w->has_client = w->has_terminal = false;
        check_eq_int(add(w, 1, 1), APPROVAL_WAITS);
        approvals_held(w->a);
        settle(w);
        check_eq_str(w->outcome[1].why, "no person can be asked");
        check(!w->is_held);
        w->has_terminal = true;
        ask_one(w, 2, 1);
        check_eq_int(w->wait_ms, 50000);
        close_world(w);
}

static void test_whole_asks_the_terminal_about_long_calls(void)
{
        struct world *w = &world;

        open_world(w);
        w->settings.whole = true;
        ask_one(w, 0, 1);
        check(w->ask);
        client_says(w, "{\"action\":\"accept\"}", 400);
        for (size_t i = 1; i < 4; i++)
                add(w, i, 1);
        approvals_held(w->a);
        check(!w->ask && w->at_terminal);
        close_world(w);
}

static void test_session_that_runs_again_sends_nothing(void)
{
        struct world *w = &world;
        struct question_view view;

        open_world(w);
        ask_one(w, 0, 1);
        add(w, 1, 1);
        /* After the answer, before it is known that nothing has run. */
        view = view_of(w);
        const struct approval_answer yes = {.scope = SCOPE_ONCE};
        struct error err = {};
        check_eq_int(
                approvals_answer(&w->all, APPROVAL_BY_TERMINAL, view.id, view.sha256, &yes, &err),
                0);
        check_eq_int(w->outcome[0].state, 0);
        w->is_releasing = false;
        w->n_releases = w->n_holds;
        approvals_gone(w->a, "the session continued itself");
        check_eq_str(w->outcome[0].why, "the session continued itself");
        check_eq_int(w->outcome[1].state, -1);
        /* While a person is asked. */
        ask_one(w, 2, 1);
        approvals_gone(w->a, "the session continued itself");
        w->n_releases = w->n_holds;
        check_eq_int(w->outcome[2].state, -1);
        check_eq_int(w->n_withdrawn, 2);
        check(LIST_EMPTY(&w->all));
        close_world(w);
}

static bool allows_first(void *data, struct approval_call *call, bool *is_allowed, const char **why)
{
        struct world *w = data;

        *is_allowed = call == &w->calls[0];
        *why = "the rule denies it now";
        return call != &w->calls[2];
}

static void test_rules_change_while_a_person_thinks(void)
{
        struct world *w = &world;

        open_world(w);
        for (size_t i = 0; i < 3; i++)
                add(w, i, 1);
        approvals_held(w->a);
        approvals_recheck(w->a, allows_first);
        check_eq_int(w->outcome[0].state, 1);
        check_eq_str(w->outcome[1].why, "the rule denies it now");
        check_eq_int(w->outcome[2].state, 0);
        check_eq_int(view_of(w).n_calls, 1);
        close_world(w);
}

int main(void)
{
        run(test_gather_is_one_question);
        run(test_later_call_waits_for_the_next_question);
        run(test_first_answer_counts);
        run(test_answer_about_other_bytes_is_refused);
        run(test_answer_that_cannot_be_recorded_allows_nothing);
        run(test_refusal_at_once_is_not_a_persons);
        run(test_misfit_is_asked_again_once);
        run(test_grants);
        run(test_no_grant_for_what_a_client_is_not_shown);
        run(test_terminal_that_is_not_asked);
        run(test_arguments_that_nobody_can_read);
        run(test_question_is_of_one_cell);
        run(test_end_between_answer_and_release);
        run(test_grant_covers_calls_that_wait);
        run(test_rows);
        run(test_three_refusals_and_the_bound_of_a_cell);
        run(test_timeout_is_no);
        run(test_calls_cells_and_sessions_end);
        run(test_more_calls_than_one_question_has);
        run(test_what_waits_is_bounded);
        run(test_many_calls_are_dropped);
        run(test_nobody_can_be_asked);
        run(test_whole_asks_the_terminal_about_long_calls);
        run(test_session_that_runs_again_sends_nothing);
        run(test_rules_change_while_a_person_thinks);
        return 0;
}
