/* The owner of a session's questions, with a client and a terminal that do as the test says. */
#pragma once

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
        char way[300]; /* the last one */
        unsigned n_pages_done;
        struct approval_call calls[CALLS];
        struct {
                int state; /* 0: waits, 1: sent, -1: denied */
                char why[600];
        } outcome[CALLS];
        bool was_held_at_decision;
        bool is_unrecordable;
        char events[1000];
};

static inline struct question_view view_of(const struct world *w)
{
        struct question_view view;
        uint64_t since;

        approvals_view(w->a, &view, &since);
        return view;
}

static inline void hold(void *data)
{
        struct world *w = data;

        w->is_held = true;
        w->n_holds++;
}

static inline void release(void *data)
{
        struct world *w = data;

        w->n_releases++;
        w->is_releasing = true;
}

static inline void on_withdraw(struct client_ask *ask)
{
        struct world *w = ask->taker;

        w->ask = NULL;
        w->n_withdrawn++;
}

static inline int ask_client(void *data, struct client_ask *ask, struct error *err)
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

static inline bool ask_person(void *data, const struct person_way *way)
{
        struct world *w = data;

        w->at_terminal = w->has_terminal;
        w->wait_ms = way->wait_ms;
        snprintf(w->way, sizeof(w->way), "%s%s%s", way->id ? "terminal" : "",
                 way->page ? " page " : "", way->page ? way->page : "");
        return w->has_terminal;
}

static inline void page_done(void *data, const char *page)
{
        struct world *w = data;

        check_eq_str(page, view_of(w).id);
        w->n_pages_done++;
}

static inline void end_person(void *data)
{
        ((struct world *)data)->at_terminal = false;
}

static inline void decide(void *data, struct approval_call *call, bool is_allowed, const char *why)
{
        struct world *w = data;
        size_t i = (size_t)(call - w->calls);

        check_eq_int(w->outcome[i].state, 0);
        w->outcome[i].state = is_allowed ? 1 : -1;
        w->was_held_at_decision = w->is_held;
        snprintf(w->outcome[i].why, sizeof(w->outcome[i].why), "%s", is_allowed ? "" : why);
}

static inline int record(void *data, struct approvals *a, const struct approval_event *event,
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

static const struct approval_host host = {hold,       release,   ask_client, ask_person,
                                          end_person, page_done, decide,     record};

static inline void open_world(struct world *w)
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
static inline void settle(struct world *w)
{
        if (!w->is_releasing)
                return;
        w->is_releasing = false;
        unsigned n = w->n_holds;
        approvals_released(w->a);
        w->is_held = w->n_holds > n;
}

static inline void close_world(struct world *w)
{
        approvals_withdraw(w->a, "the end");
        settle(w);
        check_eq_int(w->n_holds, w->n_releases);
        check(!w->ask && !w->at_terminal);
        approvals_free(w->a);
        check(LIST_EMPTY(&w->all));
        event_base_free(w->base);
}

static inline enum approval_verdict add_with(struct world *w, size_t i, uint64_t cell,
                                             const char *tool, const char *rule,
                                             uint64_t definition)
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

static inline enum approval_verdict add(struct world *w, size_t i, uint64_t cell)
{
        return add_with(w, i, cell, "send", "rule 1", 7);
}

static inline void ask_one(struct world *w, size_t i, uint64_t cell)
{
        check_eq_int(add(w, i, cell), APPROVAL_WAITS);
        approvals_held(w->a);
        check_eq_int(approvals_state(w->a), APPROVAL_ASKED);
}

static inline void client_says(struct world *w, const char *json, uint64_t after_ms)
{
        _cleanup_json_ yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
        struct client_ask *ask = w->ask;

        fake_clock_advance_ms(after_ms);
        check(ask);
        w->ask = NULL;
        ask->answered(ask, yyjson_doc_get_root(doc), NULL);
        settle(w);
}

static inline int terminal_says(struct world *w, enum question_scope scope, const uint8_t *rows,
                                const char *note)
{
        struct question_view view = view_of(w);
        const struct approval_answer answer = {
                .scope = scope, .rows = rows, .last_row = rows ? 3 : 0, .note = note};
        struct error err = {};
        char id[64];

        snprintf(id, sizeof(id), "%s", view.id);
        int r = approvals_answer(&w->all, APPROVAL_BY_TERMINAL, id, view.sha256, &answer, &err);
        settle(w);
        return r;
}

static struct world world;
