/* The questions of a session: states, answers, grants, and calls that end meanwhile. */
#include "supervisor/trust/questions/approval.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { CALLS = 2000 };

struct world {
        struct event_base *base;
        struct approval_list all;
        struct approvals *a;
        struct approval_settings settings;
        bool is_held, is_releasing, has_client, has_terminal;
        struct client_ask *ask; /* open at the client */
        unsigned n_asked, n_withdrawn, n_holds, n_releases;
        bool at_terminal;
        uint32_t wait_ms;
        struct approval_call calls[CALLS];
        struct {
                int state; /* 0: waits, 1: sent, -1: denied */
                char why[600];
        } outcome[CALLS];
        bool was_held_at_decision;
        bool is_unrecordable;
        char events[1000];
};

static void hold(void *data)
{
        struct world *w = data;

        w->is_held = true;
        w->n_holds++;
}

static void release(void *data)
{
        struct world *w = data;

        w->n_releases++;
        w->is_releasing = true;
}

static void on_withdraw(struct client_ask *ask)
{
        struct world *w = ask->taker;

        w->ask = NULL;
        w->n_withdrawn++;
}

static int ask_client(void *data, struct client_ask *ask, struct error *err)
{
        struct world *w = data;

        if (!w->has_client)
                return error_set(err, EOPNOTSUPP, "no");
        w->ask = ask;
        w->n_asked++;
        ask->taker = w;
        ask->withdraw = on_withdraw;
        return 0;
}

static bool ask_terminal(void *data, const char *id, uint32_t wait_ms)
{
        struct world *w = data;

        w->at_terminal = w->has_terminal;
        w->wait_ms = wait_ms;
        return w->has_terminal;
}

static void end_terminal(void *data)
{
        ((struct world *)data)->at_terminal = false;
}

static void decide(void *data, struct approval_call *call, bool is_allowed, const char *why)
{
        struct world *w = data;
        size_t i = (size_t)(call - w->calls);

        check_eq_int(w->outcome[i].state, 0);
        w->outcome[i].state = is_allowed ? 1 : -1;
        w->was_held_at_decision = w->is_held;
        snprintf(w->outcome[i].why, sizeof(w->outcome[i].why), "%s", is_allowed ? "" : why);
}

static int record(void *data, const struct approvals *a, const struct approval_event *event,
                  struct error *err)
{
        struct world *w = data;
        size_t n = strlen(w->events);

        if (w->is_unrecordable)
                return error_set(err, ENOSPC, "journal: write 1.jsonl: No space left on device");
        snprintf(w->events + n, sizeof(w->events) - n, "%s%s%s;", event->name,
                 *event->who ? " " : "", event->who);
        return 0;
}

static const struct approval_host host = {hold,         release, ask_client, ask_terminal,
                                          end_terminal, decide,  record};

static void open_world(struct world *w)
{
        *w = (struct world){.has_client = true, .has_terminal = true};
        w->settings = (struct approval_settings){.by_client = true,
                                                 .by_terminal = true,
                                                 .wait_ms = 50000,
                                                 .timeout_ms = 600000,
                                                 .per_cell = 10};
        LIST_INIT(&w->all);
        fake_clock_skip_idle(true);
        w->base = event_base_new();
        w->a = approvals_new(w->base, &w->all, "main", "", &host, w);
        check(w->a);
}

/* The session confirms that nothing has run. */
static void settle(struct world *w)
{
        if (!w->is_releasing)
                return;
        w->is_releasing = false;
        unsigned n = w->n_holds;
        approvals_released(w->a);
        w->is_held = w->n_holds > n;
}

static void close_world(struct world *w)
{
        approvals_withdraw(w->a, "the end");
        settle(w);
        check_eq_int(w->n_holds, w->n_releases);
        check(!w->ask && !w->at_terminal);
        approvals_free(w->a);
        check(LIST_EMPTY(&w->all));
        event_base_free(w->base);
}

static enum approval_verdict add_with(struct world *w, size_t i, uint64_t cell, const char *tool,
                                      const char *rule, uint64_t definition)
{
        const char *why = NULL;

        w->outcome[i].state = 0;
        w->calls[i] = (struct approval_call){.cell = cell,
                                             .call = {.number = i + 1,
                                                      .server = "mail",
                                                      .tool = tool,
                                                      .json = "{}",
                                                      .n = 2,
                                                      .definition = definition,
                                                      .rule = rule}};
        enum approval_verdict verdict = approvals_add(w->a, &w->calls[i], &w->settings, &why);
        if (verdict == APPROVAL_DENIED)
                snprintf(w->outcome[i].why, sizeof(w->outcome[i].why), "%s", why);
        return verdict;
}

static enum approval_verdict add(struct world *w, size_t i, uint64_t cell)
{
        return add_with(w, i, cell, "send", "rule 1", 7);
}

static void ask_one(struct world *w, size_t i, uint64_t cell)
{
        check_eq_int(add(w, i, cell), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(approvals_state(w->a), APPROVAL_ASKED);
}

static void client_says(struct world *w, const char *json, uint64_t after_ms)
{
        _cleanup_json_ yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
        struct client_ask *ask = w->ask;

        fake_clock_advance_ms(after_ms);
        check(ask);
        w->ask = NULL;
        ask->answered(ask, yyjson_doc_get_root(doc), NULL);
        settle(w);
}

static struct question_view view_of(const struct world *w)
{
        struct question_view view;
        uint64_t since;

        approvals_view(w->a, &view, &since);
        return view;
}

static int terminal_says(struct world *w, enum question_scope scope, const uint8_t *rows,
                         const char *note)
{
        struct question_view view = view_of(w);
        const struct approval_answer answer = {
                .scope = scope, .rows = rows, .last_row = rows ? 3 : 0, .note = note};
        struct error err = {};
        char id[64];

        snprintf(id, sizeof(id), "%s", view.id);
        int r = approvals_answer(&w->all, id, view.sha256, &answer, &err);
        settle(w);
        return r;
}

static struct world world;

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
        check_eq_int(approvals_answer(&w->all, id, sum, &yes, &err), -ENOENT);
        check_has(err.text, "it was answered, or has ended");
        /* The next question has another id. */
        ask_one(w, 1, 1);
        check(strcmp(view_of(w).id, id) != 0);
        check_eq_int(approvals_answer(&w->all, id, sum, &yes, &err), -ENOENT);
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
        check_eq_int(approvals_answer(&w->all, view_of(w).id, "0123", &yes, &err), -EBADMSG);
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
        check_eq_int(terminal_says(w, SCOPE_SESSION, NULL, NULL), -ENOENT);
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
        check_eq_int(approvals_answer(&w->all, view.id, view.sha256, &yes, &err), 0);
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
        check_eq_int(approvals_answer(&w->all, view.id, view.sha256, &yes, &err), 0);
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
        run(test_nobody_can_be_asked);
        run(test_whole_asks_the_terminal_about_long_calls);
        run(test_session_that_runs_again_sends_nothing);
        run(test_rules_change_while_a_person_thinks);
        return 0;
}
