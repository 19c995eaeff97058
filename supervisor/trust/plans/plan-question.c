/* Asks a person about a plan. */
#include "supervisor/trust/plans/plan-question.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "supervisor/trust/records/record.h"

enum { WHY_MAX = 640, ROWS_BYTES_MAX = 8 * 1024 };

/* A row that is not sent in the copy. */
struct asked {
        struct approval_call approval;
        struct plan_row *row;
};

struct plan_question {
        struct plan_asker asker;
        struct log_ids ids;
        struct config_journal journal;
        struct approvals *approvals;
        struct event *step; /* to what is next: nothing here may be called from inside */
        enum { STEP_HELD, STEP_RELEASED, STEP_DECIDED } next;
        size_t n, n_left;
        bool is_any_allowed;
        char why[WHY_MAX];
        struct asked *calls;
};

/* ---- the functions of the approvals ---- */

static void hold(void *data)
{
        struct plan_question *q = data;

        q->next = STEP_HELD;
        event_active(q->step, 0, 0);
}

static void release(void *data)
{
        struct plan_question *q = data;

        q->next = STEP_RELEASED;
        event_active(q->step, 0, 0);
}

static int ask_client(void *data, struct client_ask *ask, struct error *err)
{
        struct plan_question *q = data;

        return q->asker.ask_client(q->asker.data, ask, err);
}

static bool ask_person(void *data, const struct person_way *way)
{
        struct plan_question *q = data;

        return q->asker.ask_person(q->asker.data, way);
}

static void end_person(void *data)
{
        struct plan_question *q = data;

        q->asker.end_person(q->asker.data);
}

static void page_done(void *data, const char *page)
{
        struct plan_question *q = data;

        q->asker.page_done(q->asker.data, page);
}

static void decide(void *data, struct approval_call *call, bool is_allowed, const char *why)
{
        struct plan_question *q = data;

        ((struct asked *)call)->row->is_allowed = is_allowed;
        q->is_any_allowed |= is_allowed;
        if (!is_allowed)
                snprintf(q->why, sizeof(q->why), "%s", why);
        q->n_left--;
}

/* ---- the journal ---- */

static struct log_field text_field(const char *name, const char *text)
{
        return (struct log_field){name, LOG_TEXT, text, strlen(text), 0};
}

static void put_rows(struct buffer *to, const struct question_view *view, const bool *allowed)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < view->n_calls; i++) {
                if (allowed && allowed[i])
                        json_out_int(&out, NULL, (int64_t)i + 1);
        }
        json_out_end(&out, ']');
        if (out.error)
                buffer_done(to);
}

static int record_question(struct plan_question *q, const struct question_view *view,
                           struct error *err)
{
        const struct question_call *first = view->calls[0];
        struct log_ids ids = q->ids;

        ids.server = first->server;
        ids.tool = first->tool;
        const struct log_field fields[] = {
                text_field("id", view->id),
                {"plan", LOG_BOOL, NULL, 0, true},
                {"calls", LOG_NUMBER, NULL, 0, view->n_calls},
                text_field("sha256", view->sha256),
                text_field("rule", first->rule),
        };
        return record_fact(&q->journal, "ask", &ids, fields, 5, err);
}

static int record_decision(struct plan_question *q, const struct question_view *view,
                           const struct approval_event *event, struct error *err)
{
        _cleanup_buffer_ struct buffer rows = BUFFER_INIT(ROWS_BYTES_MAX);
        bool is_refused = strcmp(event->name, "refused") == 0;

        put_rows(&rows, view, event->allowed);
        const struct log_field fields[] = {
                text_field("id", view->id),
                {"plan", LOG_BOOL, NULL, 0, true},
                text_field("by", event->who),
                text_field("sha256", is_refused ? event->sha256 : view->sha256),
                is_refused ? text_field("refused", event->why)
                           : text_field("scope", question_scope_name(event->scope)),
                {"rows", LOG_JSON, buffer_bytes(&rows), rows.length, 0},
        };
        return record_fact(&q->journal, "decision", &q->ids, fields,
                           is_refused || rows.length == 0 ? 5 : 6, err);
}

static int record(void *data, struct approvals *approvals, const struct approval_event *event,
                  struct error *err)
{
        struct plan_question *q = data;
        struct question_view view;
        uint64_t asked_us;

        approvals_view(approvals, &view, &asked_us);
        log_event(LOG_LEVEL_INFO, &q->ids,
                  "question %s about a plan of %zu calls: %s%s%s, scope %s", view.id, view.n_calls,
                  event->name, *event->who ? " by " : "", event->who,
                  question_scope_name(event->scope));
        if (view.n_calls == 0)
                return 0;
        if (strcmp(event->name, "asked") == 0)
                return record_question(q, &view, err);
        if (strcmp(event->name, "answered") == 0 || strcmp(event->name, "refused") == 0)
                return record_decision(q, &view, event, err);
        return 0;
}

static const struct approval_host host = {
        .hold = hold,
        .release = release,
        .ask_client = ask_client,
        .ask_person = ask_person,
        .end_person = end_person,
        .page_done = page_done,
        .decide = decide,
        .record = record,
};

/* ---- the question ---- */

static void on_step(evutil_socket_t fd, short what, void *data)
{
        struct plan_question *q = data;

        switch (q->next) {
        case STEP_HELD:
                approvals_held(q->approvals);
                return;
        case STEP_RELEASED:
                approvals_released(q->approvals);
                if (q->n_left > 0)
                        return;
                q->next = STEP_DECIDED;
                event_active(q->step, 0, 0);
                return;
        default:
                q->asker.decided(q->asker.data, q->is_any_allowed, q->why);
        }
}

/* Adds the calls. One question has all of them: the plan has no more than one may have. */
static bool add_calls(struct plan_question *q, struct plan *plan,
                      const struct approval_settings *settings)
{
        for (size_t i = 0; i < plan_count(plan); i++) {
                struct plan_row *row = plan_at(plan, i);
                struct asked *asked = &q->calls[q->n];
                const char *why;

                if (row->kind == PLAN_READS)
                        continue;
                *asked = (struct asked){
                        .row = row,
                        .approval = {.cell = 1,
                                     .call = {.number = row->number,
                                              .unsure = row->unsure,
                                              .server = row->server,
                                              .tool = row->tool,
                                              .json = row->json,
                                              .n = row->n,
                                              .definition = row->definition,
                                              .rule = row->kind == PLAN_ASKS ? row->rule
                                                                             : QUESTION_ALLOWED,
                                              .why = row->kind == PLAN_ASKS ? row->why : NULL}},
                };
                if (approvals_add(q->approvals, &asked->approval, settings, &why) != APPROVAL_WAITS)
                        return false;
                q->n++;
                q->n_left++;
        }
        return q->n > 0;
}

struct plan_question *plan_question_new(struct event_base *base, struct plan *plan,
                                        const struct log_ids *ids, const char *session,
                                        const char *principal,
                                        const struct approval_settings *settings,
                                        const struct config_journal *journal,
                                        const struct plan_asker *asker)
{
        struct plan_question *q = calloc(1, sizeof(*q));

        if (!q)
                return NULL;
        q->asker = *asker;
        q->ids = *ids;
        q->journal = *journal;
        q->calls = calloc(plan_count(plan), sizeof(*q->calls));
        q->step = event_new(base, -1, 0, on_step, q);
        if (q->calls && q->step)
                q->approvals = approvals_new(base, approvals_of_process(), session, principal,
                                             &host, q);
        if (!q->approvals || !add_calls(q, plan, settings))
                return plan_question_free(q);
        return q;
}

struct plan_question *plan_question_free(struct plan_question *q)
{
        if (!q)
                return NULL;
        /* Those that are in no question yet are decided by that. */
        if (q->approvals && q->n_left > 0)
                approvals_withdraw(q->approvals, "the call has ended");
        for (size_t i = 0; q->approvals && i < q->n; i++) {
                if (q->calls[i].approval.row != 0)
                        approvals_drop(q->approvals, &q->calls[i].approval);
        }
        if (q->approvals)
                approvals_free(q->approvals);
        if (q->step)
                event_free(q->step);
        free(q->calls);
        free(q);
        return NULL;
}
