/* The questions of one session. */
#include "supervisor/trust/asking.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-out.h"
#include "base/log.h"
#include "policy/config/ask-keys.h"
#include "policy/config/config.h"
#include "supervisor/session/hold.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/trust/proposal.h"
#include "supervisor/trust/records/record.h"

struct asking {
        struct session *session;
        uint64_t born_us; /* of the sandbox whose grants these are */
        char principal[SESSION_KEY_MAX + 1];
        struct approvals *approvals;
        struct hold_request hold;
        struct event *failed; /* the session could not be held */
        uint64_t shown_cell;  /* whose client has the way; 0: none */
        bool (*decides)(struct asking_call *call, bool *is_allowed, const char **why);
};

/* ---- the session stands still ---- */

static void on_held(void *data)
{
        approvals_held(((struct asking *)data)->approvals);
}

static void on_released(void *data)
{
        approvals_released(((struct asking *)data)->approvals);
}

static void on_gone(void *data, const char *why)
{
        struct asking *a = data;

        a->session->asks.calls = 0;
        approvals_gone(a->approvals, why);
}

static void on_failed(evutil_socket_t fd, short what, void *data)
{
        on_gone(data, "the session could not stand still");
}

static void hold(void *data)
{
        struct asking *a = data;
        struct error err = {};

        a->hold = (struct hold_request){
                .data = a, .held = on_held, .released = on_released, .gone = on_gone};
        if (a->session->table->hold(a->session, &a->hold, &err) < 0)
                event_active(a->failed, 0, 0);
}

static void release(void *data)
{
        struct asking *a = data;

        a->session->asks.calls = 0;
        a->session->table->release(&a->hold);
}

/* ---- the person ---- */

static int ask_client(void *data, struct client_ask *ask, struct error *err)
{
        const struct asking *a = data;
        const struct cell *cell = session_current(a->session);

        if (!cell || cell->cancelled || !cell->request.client)
                return error_set(err, ENOTCONN, "the cell has no client");
        return cell->request.client->ask(cell->request.data, ask, err);
}

static bool ask_person(void *data, const struct person_way *way)
{
        struct asking *a = data;
        const struct cell *cell = session_current(a->session);

        if (!cell || cell->cancelled || !cell->request.waits ||
            !cell->request.waits(cell->request.data, way))
                return false;
        a->shown_cell = cell->number;
        return true;
}

static void end_person(void *data)
{
        struct asking *a = data;
        const struct cell *cell = session_current(a->session);

        if (cell && cell->number == a->shown_cell)
                cell->request.waits(cell->request.data, NULL);
        a->shown_cell = 0;
}

static void page_done(void *data, const char *page)
{
        const struct asking *a = data;
        const struct cell *cell = session_current(a->session);

        if (cell && !cell->cancelled && cell->request.client)
                cell->request.client->page_done(cell->request.data, page);
}

static struct asking_call *whole(struct approval_call *call)
{
        return (struct asking_call *)((char *)call - offsetof(struct asking_call, approval));
}

static void decide(void *data, struct approval_call *call, bool is_allowed, const char *why)
{
        struct asking_call *c = whole(call);

        c->decided(c, is_allowed, why);
}

/* ---- the journal ---- */

enum { NUMBERS_MAX = 8 * 1024 }; /* bytes of a list in a record; a longer one is left out */

/* The rows of a question, or the numbers of its calls: all of them, or those that are allowed. */
static void put_list(struct buffer *to, const struct question_view *view, const bool *allowed,
                     bool is_rows)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '[');
        for (size_t i = 0; i < view->n_calls; i++) {
                if (!allowed || allowed[i])
                        json_out_int(&out, NULL,
                                     is_rows ? (int64_t)i + 1 : (int64_t)view->calls[i]->number);
        }
        json_out_end(&out, ']');
        if (out.error)
                buffer_done(to);
}

static struct log_field list_field(const char *name, const struct buffer *list)
{
        return (struct log_field){name, LOG_JSON, buffer_bytes(list), list->length, 0};
}

static struct log_field text_field(const char *name, const char *text)
{
        return (struct log_field){name, LOG_TEXT, text, strlen(text), 0};
}

static int record_question(const struct config_journal *how, struct log_ids *ids,
                           const struct question_view *view, struct error *err)
{
        _cleanup_buffer_ struct buffer numbers = BUFFER_INIT(NUMBERS_MAX);
        const struct question_call *first = view->calls[0];

        put_list(&numbers, view, NULL, false);
        ids->server = first->server;
        ids->tool = first->tool;
        const struct log_field fields[] = {
                text_field("id", view->id),         {"calls", LOG_NUMBER, NULL, 0, view->n_calls},
                text_field("sha256", view->sha256), text_field("rule", first->rule),
                list_field("numbers", &numbers),
        };
        return record_fact(how, "ask", ids, fields, numbers.length > 0 ? 5 : 4, err);
}

static int record_decision(const struct config_journal *how, const struct log_ids *ids,
                           const struct question_view *view, const struct approval_event *event,
                           struct error *err)
{
        _cleanup_buffer_ struct buffer rows = BUFFER_INIT(NUMBERS_MAX);
        _cleanup_buffer_ struct buffer numbers = BUFFER_INIT(NUMBERS_MAX);
        static const bool none[APPROVAL_CALLS_MAX];
        bool is_refused = strcmp(event->name, "refused") == 0;

        const bool *allowed = event->allowed ? event->allowed : none;

        put_list(&rows, view, allowed, true);
        put_list(&numbers, view, allowed, false);
        size_t n_lists = is_refused || rows.length == 0 ? 0 : numbers.length == 0 ? 1 : 2;
        const struct log_field fields[] = {
                text_field("id", view->id),
                text_field("by", event->who),
                text_field("sha256", is_refused ? event->sha256 : view->sha256),
                is_refused ? text_field("refused", event->why)
                           : text_field("scope", question_scope_name(event->scope)),
                list_field("rows", &rows),
                list_field("numbers", &numbers),
        };
        return record_fact(how, "decision", ids, fields, 4 + n_lists, err);
}

/* Other events are in the log only: the calls get records of the kind "denied". */
static int record(void *data, struct approvals *approvals, const struct approval_event *event,
                  struct error *err)
{
        const struct asking *a = data;
        const struct cell *cell = session_current(a->session);
        const struct config_profile *rights = a->session->rights;
        struct log_ids ids = session_log_ids(a->session, cell);
        bool is_asked = strcmp(event->name, "asked") == 0;
        struct question_view view;
        uint64_t asked_us;

        approvals_view(approvals, &view, &asked_us);
        if (is_asked) {
                a->session->asks.calls = view.n_calls;
                a->session->asks.since_us = asked_us;
        }
        log_event(LOG_LEVEL_INFO, &ids, "question %s about %zu calls: %s%s%s, scope %s", view.id,
                  view.n_calls, event->name, *event->who ? " by " : "", event->who,
                  question_scope_name(event->scope));
        if (!rights || view.n_calls == 0)
                return 0;
        if (is_asked)
                return record_question(&rights->journal, &ids, &view, err);
        if (strcmp(event->name, "answered") != 0 && strcmp(event->name, "refused") != 0)
                return 0;
        int r = record_decision(&rights->journal, &ids, &view, event, err);
        if (r >= 0 && event->scope == SCOPE_ALWAYS && event->allowed)
                proposals_record(rights, &ids, &view, event->allowed);
        return r;
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

/* ---- calls ---- */

/* Those who can answer stay as when the session began; the address of the pages is where the server has them now. NULL: nowhere. */
static const char *find_page(const struct session *s)
{
        const struct config *config = s->context->config;

        if (!s->profile)
                return config->top.ask.page;
        int i = config_find_profile(config, s->profile->name, NULL);
        return i < 0 ? NULL : config->profiles[i].ask.page;
}

struct approval_settings asking_settings(const struct session *s)
{
        const struct config_ask *ask = s->profile ? &s->profile->ask : &s->config->top.ask;
        unsigned by = config_ask_by(ask);
        struct approval_settings settings = {
                .by_client = by & CONFIG_ASK_CLIENT,
                .by_terminal = by & CONFIG_ASK_TERMINAL,
                .whole = ask->whole,
                .wait_ms = ask->wait_ms,
                .timeout_ms = ask->timeout_ms,
                .per_cell = ask->per_cell,
        };

        static_assert((int)CONFIG_ASK_PAGE_MAX == (int)APPROVAL_PAGE_MAX, "every address fits");
        const char *page = by & CONFIG_ASK_PAGE ? find_page(s) : NULL;
        if (page)
                snprintf(settings.page, sizeof(settings.page), "%s", page);
        return settings;
}

static struct asking *make(struct session *session)
{
        struct event_base *base = session->context->base;
        const char *name = session_key_name(session->name);
        struct asking *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        a->session = session;
        a->born_us = session->born_us;
        if (name > session->name)
                snprintf(a->principal, sizeof(a->principal), "%.*s",
                         (int)(name - session->name) - 1, session->name);
        a->failed = evtimer_new(base, on_failed, a);
        a->approvals = a->failed ? approvals_new(base, approvals_of_process(), name, a->principal,
                                                 &host, a)
                                 : NULL;
        return a->approvals ? a : asking_free(a);
}

enum approval_verdict asking_ask(struct asking **asking, struct session *session,
                                 struct asking_call *call, const char **why)
{
        const struct cell *cell = session_current(session);
        const struct approval_settings settings = asking_settings(session);

        if (!*asking)
                *asking = make(session);
        if (!*asking) {
                *why = APPROVAL_NO_MEMORY;
                return APPROVAL_DENIED;
        }
        if ((*asking)->born_us != session->born_us)
                approvals_forget((*asking)->approvals);
        (*asking)->born_us = session->born_us;
        call->approval.cell = cell ? cell->number : 0;
        return approvals_add((*asking)->approvals, &call->approval, &settings, why);
}

void asking_drop(struct asking *a, struct asking_call *call)
{
        approvals_drop(a->approvals, &call->approval);
}

static bool decides(void *data, struct approval_call *call, bool *is_allowed, const char **why)
{
        const struct asking *a = data;

        return a->decides(whole(call), is_allowed, why);
}

void asking_recheck(struct asking *a,
                    bool (*function)(struct asking_call *call, bool *is_allowed, const char **why))
{
        if (!a)
                return;
        a->decides = function;
        approvals_recheck(a->approvals, decides);
}

struct asking *asking_free(struct asking *a)
{
        if (!a)
                return NULL;
        a->session->table->drop_hold(&a->hold);
        if (a->approvals)
                approvals_free(a->approvals);
        if (a->failed)
                event_free(a->failed);
        free(a);
        return NULL;
}
