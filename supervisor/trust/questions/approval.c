/* The questions of a session. */
#include "supervisor/trust/questions/approval.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/unguessable.h"
#include "supervisor/trust/records/record.h"

enum {
        WHY_MAX = 4 * (QUESTION_NOTE_MAX + 100),
        CALL_BYTES = 1024, /* of a call, besides its arguments */
};

static const char said_no[] = "a person answered no";
static const char refused_often[] = "a person has answered no three times in this cell";

TAILQ_HEAD(approval_calls, approval_call);

struct approvals {
        LIST_ENTRY(approvals) link; /* in `all`, while a person decides */
        struct approval_list *all;
        const char *session, *principal;
        const struct approval_host *host;
        void *data;
        struct grants grants;
        struct approval_calls waiting; /* for a question, in order */
        size_t bytes;                  /* of these, and of those in the question */
        uint64_t counted_cell;         /* whose questions are counted */
        unsigned n_asked;
        struct approval_settings given; /* with the newest call */

        /* the question */
        enum approval_state state;
        struct approval_settings settings;
        struct approval_call **calls; /* NULL: it was dropped */
        const struct question_call **shown;
        size_t n, n_left;
        uint64_t cell, since_us, asked_us;
        char id[UNGUESSABLE_LENGTH + 1]; /* of which QUESTION_ID_LENGTH are used */
        char sha256[QUESTION_SHA_SIZE];  /* "": it could not be made. Read it by digest(). */
        bool is_changed;                 /* since it was made */
        struct event *deadline;
        struct client_ask ask;
        char label[QUESTION_ID_LENGTH + QUESTION_SHA_SIZE]; /* id and sha256, of the ask */
        bool is_client_asked, is_way_told, was_misfit;
        uint64_t client_us;                /* when the client got the question */
        char page[UNGUESSABLE_LENGTH + 1]; /* the name of its page */
        bool is_page_open;
        bool is_address_given; /* the client got a request to open the page … */
        bool is_address_asked; /* … and has not answered */
        unsigned n_wrong;      /* tokens, of the page */

        /* how it ended */
        bool *allowed;           /* of each call; NULL: none */
        char why[WHY_MAX];       /* of those that are denied */
        struct error unrecorded; /* set: the answer could not be recorded, so none is */
};

const char *approval_state_name(enum approval_state state)
{
        static const char *const names[APPROVAL_STATES] = {
                "none",     "collecting", "held",      "asked",
                "answered", "expired",    "withdrawn", "released",
        };

        return names[state];
}

static int record(struct approvals *a, const struct approval_event *event, struct error *err)
{
        return a->host->record ? a->host->record(a->data, a, event, err) : 0;
}

/* An event after which nothing more is allowed than before. */
static void note(struct approvals *a, const char *name, const char *who)
{
        struct error err = {};

        if (record(a, &(struct approval_event){.name = name, .who = who, .scope = SCOPE_NO}, &err) <
            0)
                log_warning("%s: the record of a question is lost", err.text);
}

static void uncount(struct approvals *a, struct approval_call *call)
{
        a->bytes -= call->bytes;
        call->bytes = 0;
}

static void give_back(struct approvals *a, struct approval_call *call, bool is_allowed,
                      const char *why)
{
        uncount(a, call);
        a->host->decide(a->data, call, is_allowed, why);
}

/* ---- the end of a question ---- */

static void begin(struct approvals *a);

static void close_client(struct approvals *a)
{
        if (!a->is_client_asked)
                return;
        a->is_client_asked = a->is_address_asked = false;
        a->ask.withdraw(&a->ask);
        client_request_done(&a->ask.request);
}

static void close_way(struct approvals *a)
{
        if (!a->is_way_told)
                return;
        a->is_way_told = false;
        a->host->end_person(a->data);
}

static void close_page(struct approvals *a)
{
        a->is_page_open = false;
        if (a->is_address_asked)
                close_client(a);
        if (a->is_address_given)
                a->host->page_done(a->data, a->id);
        a->is_address_given = false;
}

/* No person can answer any more. */
static void close_question(struct approvals *a, enum approval_state state)
{
        if (a->state == APPROVAL_ASKED)
                LIST_REMOVE(a, link);
        close_client(a);
        close_page(a);
        close_way(a);
        event_del(a->deadline);
        a->state = state;
}

/* The calls are decided when the session can continue. */
static void end_question(struct approvals *a, enum approval_state state, const char *why)
{
        close_question(a, state);
        snprintf(a->why, sizeof(a->why), "%s", why);
        a->host->release(a->data);
}

static void deny_question(struct approvals *a, enum approval_state state, const char *why)
{
        free(a->allowed);
        a->allowed = NULL;
        end_question(a, state, why);
}

static void decide_all(struct approvals *a)
{
        for (size_t i = 0; i < a->n; i++) {
                struct approval_call *call = a->calls[i];
                if (!call)
                        continue;
                bool is_allowed = a->allowed && a->allowed[i];
                a->calls[i] = NULL;
                call->row = 0;
                call->is_unrecorded = is_allowed && error_is_set(&a->unrecorded);
                give_back(a, call, is_allowed && !call->is_unrecorded,
                          call->is_unrecorded ? a->unrecorded.text : a->why);
        }
        free(a->calls);
        free(a->shown);
        free(a->allowed);
        a->calls = NULL;
        a->shown = NULL;
        a->allowed = NULL;
        a->n = a->n_left = 0;
}

static void deny_waiting(struct approvals *a, uint64_t cell, const char *why)
{
        struct approval_call *call = TAILQ_FIRST(&a->waiting), *next;

        for (; call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (cell != 0 && call->cell != cell)
                        continue;
                TAILQ_REMOVE(&a->waiting, call, link);
                give_back(a, call, false, why);
        }
}

/* ---- an answer ---- */

/* A grant must not be wider than what a person has read: at a client, of calls that its message has no room for there is none. */
static void take_grants(struct approvals *a, const struct approval_answer *answer,
                        bool is_by_client)
{
        struct grant_key key;

        for (size_t i = 0; i < a->n; i++) {
                const struct approval_call *call = a->calls[i];
                if (!call)
                        continue;
                const struct question_call *q = &call->call;
                if (answer->scope == SCOPE_NO || (answer->rows && !answer->rows[i])) {
                        /* Once for each rule of the question. */
                        bool is_counted = false;
                        for (size_t k = 0; k < i && !is_counted; k++)
                                is_counted = a->calls[k] &&
                                             strcmp(a->calls[k]->call.rule, q->rule) == 0 &&
                                             (!answer->rows || !answer->rows[k]);
                        if (!is_counted)
                                grants_refuse(&a->grants, q->rule, a->cell);
                        continue;
                }
                if (answer->scope == SCOPE_ONCE || (is_by_client && !call->is_at_client))
                        continue;
                grant_key_set(&key, q->rule, q->server, q->tool, q->definition);
                grants_add(&a->grants, &key, answer->scope == SCOPE_CELL ? a->cell : 0);
        }
}

static void take_answer(struct approvals *a, const struct approval_answer *answer, const char *who)
{
        _cleanup_buffer_ struct buffer why = BUFFER_INIT(WHY_MAX);

        (void)buffer_append_text(&why, said_no);
        if (answer->note && *answer->note) {
                size_t n = utf8_cut(answer->note, strlen(answer->note), QUESTION_NOTE_MAX);
                (void)buffer_append_text(&why, ": ");
                (void)terminal_escape_line(answer->note, n, &why);
        }
        if (buffer_append(&why, "", 1) < 0)
                buffer_done(&why);
        a->allowed = calloc(APPROVAL_CALLS_MAX, sizeof(*a->allowed));
        for (size_t i = 0; a->allowed && i < a->n; i++)
                a->allowed[i] = answer->scope != SCOPE_NO && (!answer->rows || answer->rows[i]);
        const struct approval_event event = {
                .name = "answered", .who = who, .scope = answer->scope, .allowed = a->allowed};
        if (record(a, &event, &a->unrecorded) >= 0 || answer->scope == SCOPE_NO)
                take_grants(a, answer, strcmp(who, "client") == 0);
        end_question(a, APPROVAL_ANSWERED, why.length > 0 ? buffer_bytes(&why) : said_no);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
        struct approvals *a = data;

        note(a, "expired", "");
        deny_question(a, APPROVAL_EXPIRED, "no person has answered in time");
}

/* Is made when it is read: code can have many calls dropped one by one, and each of them would cost a digest of all. */
static const char *digest(struct approvals *a)
{
        if (a->is_changed && question_digest(a->shown, a->n_left, a->sha256) < 0)
                a->sha256[0] = '\0';
        a->is_changed = false;
        return a->sha256;
}

static void view(struct approvals *a, struct question_view *ret)
{
        *ret = (struct question_view){.id = a->id,
                                      .session = a->session,
                                      .principal = a->principal,
                                      .sha256 = digest(a),
                                      .calls = a->shown,
                                      .n_calls = a->n_left,
                                      .is_plan = a->settings.is_plan,
                                      .lacks_terminal = !a->settings.by_terminal};
}

static void on_client(struct client_ask *ask, yyjson_val *result, const char *why);
static void on_address(struct client_ask *ask, yyjson_val *result, const char *why);

/* label: the id and the SHA-256. */
static void on_late_answer(const char *label)
{
        char id[QUESTION_ID_LENGTH + 1];

        snprintf(id, sizeof(id), "%s", label);
        log_warning("an answer of the client for the question \"%s\" came after its end", id);
        record_refused_answer("client", id, label + QUESTION_ID_LENGTH,
                              "the question has been answered, or has ended");
}

/* The request is made: r. Returns 0, or negative errno if the client cannot be asked. */
static int pass_to_client(struct approvals *a, int r)
{
        struct error ignored = {};

        if (r >= 0)
                r = a->host->ask_client(a->data, &a->ask, &ignored);
        if (r < 0) {
                client_request_done(&a->ask.request);
                return r;
        }
        a->is_client_asked = true;
        a->client_us = clock_us();
        return 0;
}

static int ask_form(struct approvals *a)
{
        struct question_view v;
        size_t n_shown = 0;

        view(a, &v);
        if (!a->settings.by_client || (a->settings.whole && !question_is_short(&v)))
                return -EOPNOTSUPP;
        snprintf(a->label, sizeof(a->label), "%s%s", a->id, v.sha256);
        a->ask = (struct client_ask){.answered = on_client,
                                     .patience_ms = a->settings.timeout_ms,
                                     .late = on_late_answer,
                                     .label = a->label};
        int r = question_form(&v, a->was_misfit, &a->ask.request, &n_shown);
        for (size_t i = 0; i < a->n; i++)
                a->calls[i]->is_at_client = i < n_shown;
        return pass_to_client(a, r);
}

enum { ADDRESS_SIZE = APPROVAL_PAGE_MAX + sizeof(APPROVAL_PAGE_PATH) + UNGUESSABLE_LENGTH };

static void write_address(const struct approvals *a, char to[ADDRESS_SIZE])
{
        snprintf(to, ADDRESS_SIZE, "%s" APPROVAL_PAGE_PATH "%s", a->settings.page, a->page);
}

/* Asks the client to open the page. */
static int ask_address(struct approvals *a)
{
        char address[ADDRESS_SIZE];
        struct question_view v;

        if (!a->is_page_open)
                return -EOPNOTSUPP;
        view(a, &v);
        write_address(a, address);
        a->ask = (struct client_ask){.answered = on_address, .patience_ms = a->settings.timeout_ms};
        int r = pass_to_client(a, question_address(&v, address, &a->ask.request));
        a->is_address_asked = a->is_address_given = r >= 0;
        return r;
}

static int ask_client(struct approvals *a)
{
        int r = ask_form(a);

        return r < 0 ? ask_address(a) : r;
}

/* is_only: the client has not been asked. */
static bool tell_way(struct approvals *a, bool is_only)
{
        char address[ADDRESS_SIZE];
        const struct person_way way = {.id = a->settings.by_terminal ? a->id : NULL,
                                       .page = a->is_page_open ? address : NULL,
                                       .wait_ms = is_only ? a->settings.wait_ms : 0};

        if (!way.id && !way.page)
                return false;
        write_address(a, address);
        close_way(a);
        a->is_way_told = a->host->ask_person(a->data, &way);
        return a->is_way_told;
}

/* The client has not shown the question, or cannot any more. */
static void lose_client(struct approvals *a, const char *why)
{
        note(a, "not shown", "client");
        if (!tell_way(a, true))
                deny_question(a, APPROVAL_WITHDRAWN, why);
}

static bool is_quick(const struct approvals *a)
{
        return clock_us() - a->client_us < APPROVAL_SHOWN_MS * UINT64_C(1000);
}

/* The client has opened the page, or has not. */
static void on_address(struct client_ask *ask, yyjson_val *result, const char *why)
{
        struct approvals *a = (struct approvals *)((char *)ask - offsetof(struct approvals, ask));
        yyjson_val *action = yyjson_obj_get(result, "action");

        a->is_client_asked = a->is_address_asked = false;
        client_request_done(&a->ask.request);
        if (yyjson_equals_str(action, "accept")) {
                if (!tell_way(a, true))
                        deny_question(a, APPROVAL_WITHDRAWN, "no person can be asked");
                return;
        }
        bool is_no = yyjson_equals_str(action, "decline") || yyjson_equals_str(action, "cancel");
        if (is_no && !is_quick(a))
                take_answer(a, &(struct approval_answer){.scope = SCOPE_NO}, "client");
        else
                lose_client(a, "the client has not shown the address of the question");
}

static void on_client(struct client_ask *ask, yyjson_val *result, const char *why)
{
        struct approvals *a = (struct approvals *)((char *)ask - offsetof(struct approvals, ask));
        struct approval_answer answer = {};
        bool is_declined = false;

        a->is_client_asked = false;
        client_request_done(&a->ask.request);
        if (!result) {
                lose_client(a, "the client has ended the question without an answer");
                return;
        }
        enum question_form_answer form = question_form_read(result, &answer.scope, &is_declined);
        if (is_declined && is_quick(a)) {
                lose_client(a, "the client has not shown the question");
                return;
        }
        if (a->settings.is_plan && answer.scope != SCOPE_ONCE && form == FORM_YES) {
                form = FORM_MISFIT;
                answer.scope = SCOPE_NO;
        }
        if (form == FORM_MISFIT && !a->was_misfit) {
                a->was_misfit = true;
                if (ask_client(a) < 0)
                        lose_client(a, "the client has ended the question without an answer");
                return;
        }
        take_answer(a, &answer, "client");
}

/* Why an answer counts for nothing. */
static const struct refusal {
        int code;
        const char *why, *text; /* for the journal; for the person */
} no_question = {ENOENT, "no question has this id, or it has ended",
                 "no question has this id: it was answered, or has ended"},
  other_calls = {EBADMSG, "it is about other calls",
                 "the answer is about other calls than the question: show it again"},
  not_here = {EACCES, "a terminal cannot answer it",
              "this question cannot be answered at a terminal (\"ask\": {\"by\"})"};

/* Sets the error. a: NULL: there is no such question. */
static int refuse_answer(struct approvals *a, const char *who, const char *id, const char *sha256,
                         const struct refusal *refusal, struct error *err)
{
        const struct approval_event event = {
                .name = "refused", .who = who, .sha256 = sha256, .why = refusal->why};
        struct error ignored = {};

        log_warning("an answer for the question \"%.16s\" was refused: %s", id, refusal->why);
        if (a)
                (void)record(a, &event, &ignored);
        else
                record_refused_answer(who, id, sha256, refusal->why);
        return error_set(err, refusal->code, "%s", refusal->text);
}

int approvals_answer(struct approval_list *all, enum approval_by by, const char *id,
                     const char *sha256, const struct approval_answer *answer, struct error *err)
{
        const char *who = by == APPROVAL_BY_PAGE ? "page" : "terminal";
        struct approvals *a;

        LIST_FOREACH (a, all, link) {
                if (strcmp(a->id, id) == 0)
                        break;
        }
        if (!a || (by == APPROVAL_BY_PAGE && !a->is_page_open))
                return refuse_answer(NULL, who, id, sha256, &no_question, err);
        if (by == APPROVAL_BY_TERMINAL && !a->settings.by_terminal)
                return refuse_answer(a, who, id, sha256, &not_here, err);
        if (!*digest(a) || strcmp(a->sha256, sha256) != 0)
                return refuse_answer(a, who, id, sha256, &other_calls, err);
        if (a->settings.is_plan && answer->scope != SCOPE_ONCE && answer->scope != SCOPE_NO)
                return error_set(err, EINVAL, "the answer about a plan is once, no, or rows");
        if (answer->rows && answer->scope != SCOPE_ONCE)
                return error_set(err, EINVAL, "rows can be chosen with the answer once only");
        if (answer->rows && answer->last_row > a->n)
                return error_set(err, EINVAL, "the question has %zu calls, and no row %zu", a->n,
                                 answer->last_row);
        take_answer(a, answer, who);
        return 0;
}

struct approvals *approvals_find_page(const struct approval_list *all, const char *page)
{
        struct approvals *a, *found = NULL;

        if (strlen(page) != UNGUESSABLE_LENGTH)
                return NULL;
        LIST_FOREACH (a, all, link) {
                if (a->is_page_open && unguessable_equal(a->page, page, UNGUESSABLE_LENGTH))
                        found = a;
        }
        return found;
}

/* Its page is closed. The other ways to answer get a message; without one the calls are denied. */
static void lose_page(struct approvals *a, const char *why)
{
        close_page(a);
        close_way(a);
        if (!tell_way(a, !a->is_client_asked) && !a->is_client_asked)
                deny_question(a, APPROVAL_WITHDRAWN, why);
}

void approvals_wrong_token(struct approvals *a)
{
        bool is_last = ++a->n_wrong >= APPROVAL_WRONG_MAX;
        const struct approval_event event = {
                .name = "refused",
                .who = "page",
                .sha256 = digest(a),
                .why = is_last ? "not the token of the principal; the page is closed"
                               : "not the token of the principal"};
        struct error ignored = {};

        (void)record(a, &event, &ignored);
        if (!is_last)
                return;
        log_warning("the page of the question \"%s\" is closed: it got %d wrong tokens", a->id,
                    APPROVAL_WRONG_MAX);
        lose_page(a, "the page of the question got too many wrong tokens");
}

void approvals_close_pages(struct approval_list *all, const void *data,
                           bool (*is_served)(const void *data, const char *address))
{
        struct approvals *a = LIST_FIRST(all);

        while (a) {
                bool is_lost = a->is_page_open && !is_served(data, a->settings.page);

                if (is_lost)
                        lose_page(a, "the page of the question is not served any more (ask.page)");
                /* The list may be another one. */
                a = is_lost ? LIST_FIRST(all) : LIST_NEXT(a, link);
        }
}

/* ---- the beginning of a question ---- */

/* Takes the calls of the first one's cell, as many as one question may have. */
static int take_calls(struct approvals *a)
{
        struct approval_call *call = TAILQ_FIRST(&a->waiting), *next;
        size_t bytes = 0;

        a->cell = call->cell;
        a->calls = calloc(APPROVAL_CALLS_MAX, sizeof(struct approval_call *));
        a->shown = calloc(APPROVAL_CALLS_MAX, sizeof(const struct question_call *));
        if (!a->calls || !a->shown)
                return -ENOMEM;
        for (; call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (call->cell != a->cell)
                        continue;
                if (a->n == APPROVAL_CALLS_MAX || bytes + call->call.n > APPROVAL_BYTES_MAX)
                        break;
                TAILQ_REMOVE(&a->waiting, call, link);
                bytes += call->call.n;
                a->calls[a->n] = call;
                a->shown[a->n] = &call->call;
                call->row = ++a->n;
        }
        a->n_left = a->n;
        a->is_changed = false;
        return question_digest(a->shown, a->n_left, a->sha256);
}

/* Whether the cell may ask once more. */
static bool count_question(struct approvals *a)
{
        if (a->counted_cell != a->cell)
                a->n_asked = 0;
        a->counted_cell = a->cell;
        return a->n_asked++ < a->settings.per_cell;
}

void approvals_held(struct approvals *a)
{
        if (a->state != APPROVAL_COLLECTING)
                return;
        a->state = APPROVAL_HELD;
        a->settings = a->given;
        const struct timeval timeout = clock_timeval_ms(a->settings.timeout_ms);
        if (TAILQ_EMPTY(&a->waiting)) {
                deny_question(a, APPROVAL_WITHDRAWN, "");
                return;
        }
        if (take_calls(a) < 0) {
                deny_question(a, APPROVAL_WITHDRAWN, APPROVAL_NO_MEMORY);
                return;
        }
        if (!count_question(a)) {
                deny_question(a, APPROVAL_WITHDRAWN,
                              "this cell has asked too many questions (\"ask\": {\"per_cell\"})");
                return;
        }
        unguessable(a->id);
        a->id[QUESTION_ID_LENGTH] = '\0';
        a->was_misfit = false;
        a->state = APPROVAL_ASKED;
        a->asked_us = clock_us();
        LIST_INSERT_HEAD(a->all, a, link);
        event_add(a->deadline, &timeout);
        a->is_page_open = *a->settings.page;
        a->is_address_given = a->is_address_asked = false;
        a->n_wrong = 0;
        unguessable(a->page);
        int asked = ask_client(a);
        if (!tell_way(a, asked < 0) && asked < 0) {
                deny_question(a, APPROVAL_WITHDRAWN, "no person can be asked");
                return;
        }
        note(a, "asked", "");
}

static void begin(struct approvals *a)
{
        a->state = APPROVAL_COLLECTING;
        a->since_us = clock_us();
        a->unrecorded = (struct error){};
        a->host->hold(a->data);
}

enum approval_verdict approvals_add(struct approvals *a, struct approval_call *call,
                                    const struct approval_settings *settings, const char **why)
{
        struct grant_key key;

        call->row = 0;
        call->is_at_client = call->is_unrecorded = false;
        if (call->cell == 0) {
                *why = "no person can be asked about a call outside a cell";
                return APPROVAL_DENIED;
        }
        if (grants_are_refused(&a->grants, call->call.rule, call->cell)) {
                *why = refused_often;
                return APPROVAL_DENIED;
        }
        if (call->call.n > APPROVAL_BYTES_MAX) {
                *why = "arguments above 4 MiB are not shown to a person";
                return APPROVAL_DENIED;
        }
        if (a->bytes + call->call.n + CALL_BYTES > APPROVAL_WAITING_MAX) {
                *why = "too many calls of the session wait for a person";
                return APPROVAL_DENIED;
        }
        grant_key_set(&key, call->call.rule, call->call.server, call->call.tool,
                      call->call.definition);
        if (grants_have(&a->grants, &key, call->cell))
                return APPROVAL_ALLOWED;
        call->bytes = call->call.n + CALL_BYTES;
        a->bytes += call->bytes;
        TAILQ_INSERT_TAIL(&a->waiting, call, link);
        a->given = *settings;
        if (a->state == APPROVAL_NONE)
                begin(a);
        return APPROVAL_WAITS;
}

/* ---- calls and cells that end ---- */

/* The question is about fewer calls: an answer about all of them comes too late. */
static void show_again(struct approvals *a)
{
        size_t n = 0;

        for (size_t i = 0; i < a->n; i++) {
                if (!a->calls[i])
                        continue;
                a->calls[n] = a->calls[i];
                a->shown[n] = &a->calls[n]->call;
                a->calls[n]->row = n + 1;
                n++;
        }
        a->n = a->n_left = n;
        a->is_changed = true;
}

void approvals_drop(struct approvals *a, struct approval_call *call)
{
        uncount(a, call);
        if (call->row == 0) {
                TAILQ_REMOVE(&a->waiting, call, link);
                return;
        }
        a->calls[call->row - 1] = NULL;
        call->row = 0;
        if (a->state != APPROVAL_ASKED)
                return;
        if (--a->n_left > 0) {
                show_again(a);
                return;
        }
        /* The record has the digest that was shown last. */
        a->is_changed = false;
        note(a, "withdrawn", "");
        deny_question(a, APPROVAL_WITHDRAWN, "");
}

/* The question ends without an answer, also if there is one of which nothing was sent yet. */
static void withdraw(struct approvals *a, const char *why)
{
        if (a->state == APPROVAL_COLLECTING) {
                deny_question(a, APPROVAL_WITHDRAWN, why);
        } else if (a->state == APPROVAL_ASKED) {
                note(a, "withdrawn", "");
                deny_question(a, APPROVAL_WITHDRAWN, why);
        } else if (a->state == APPROVAL_ANSWERED) {
                free(a->allowed);
                a->allowed = NULL;
                snprintf(a->why, sizeof(a->why), "%s", why);
        }
}

void approvals_withdraw(struct approvals *a, const char *why)
{
        deny_waiting(a, 0, why);
        withdraw(a, why);
}

void approvals_end_cell(struct approvals *a, uint64_t cell, const char *why)
{
        deny_waiting(a, cell, why);
        if (a->state == APPROVAL_COLLECTING ? TAILQ_EMPTY(&a->waiting) : a->cell == cell)
                withdraw(a, why);
        grants_end_cell(&a->grants, cell);
}

/* The answer may decide about calls that have waited for the next question. */
static void decide_waiting(struct approvals *a)
{
        struct approval_call *call = TAILQ_FIRST(&a->waiting), *next;
        struct grant_key key;

        for (; call; call = next) {
                const struct question_call *q = &call->call;

                next = TAILQ_NEXT(call, link);
                grant_key_set(&key, q->rule, q->server, q->tool, q->definition);
                bool is_allowed = grants_have(&a->grants, &key, call->cell);
                if (!is_allowed && !grants_are_refused(&a->grants, q->rule, call->cell))
                        continue;
                TAILQ_REMOVE(&a->waiting, call, link);
                give_back(a, call, is_allowed, refused_often);
        }
}

static void go_on(struct approvals *a)
{
        a->state = APPROVAL_RELEASED;
        decide_all(a);
        decide_waiting(a);
        a->state = APPROVAL_NONE;
        if (!TAILQ_EMPTY(&a->waiting))
                begin(a);
}

void approvals_released(struct approvals *a)
{
        if (a->state >= APPROVAL_ANSWERED)
                go_on(a);
}

void approvals_gone(struct approvals *a, const char *why)
{
        if (a->state == APPROVAL_NONE)
                return;
        deny_waiting(a, 0, why);
        if (a->state == APPROVAL_ASKED)
                note(a, "withdrawn", "");
        close_question(a, APPROVAL_WITHDRAWN);
        free(a->allowed);
        a->allowed = NULL;
        snprintf(a->why, sizeof(a->why), "%s", why);
        go_on(a);
}

void approvals_forget(struct approvals *a)
{
        grants_done(&a->grants);
        a->counted_cell = 0;
        a->n_asked = 0;
}

void approvals_recheck(struct approvals *a, bool (*decides)(void *data, struct approval_call *call,
                                                            bool *is_allowed, const char **why))
{
        struct approval_call *call = TAILQ_FIRST(&a->waiting), *next;
        const char *why = "";
        bool is_allowed = false;

        for (; call; call = next) {
                next = TAILQ_NEXT(call, link);
                if (!decides(a->data, call, &is_allowed, &why))
                        continue;
                TAILQ_REMOVE(&a->waiting, call, link);
                give_back(a, call, is_allowed, why);
        }
        for (size_t i = 0; a->state == APPROVAL_ASKED && i < a->n;) {
                size_t n = a->n;
                call = a->calls[i];
                if (decides(a->data, call, &is_allowed, &why)) {
                        approvals_drop(a, call);
                        give_back(a, call, is_allowed, why);
                }
                i += a->n == n;
        }
}

/* ---- the text of a question ---- */

enum approval_state approvals_state(const struct approvals *a)
{
        return a->state;
}

size_t approvals_count(const struct approvals *a, uint64_t *since_us)
{
        *since_us = a->asked_us;
        return a->state == APPROVAL_ASKED ? a->n_left : 0;
}

struct approvals *approvals_next(const struct approval_list *all, const struct approvals *before)
{
        return before ? LIST_NEXT(before, link) : LIST_FIRST(all);
}

void approvals_view(struct approvals *a, struct question_view *ret, uint64_t *asked_us)
{
        view(a, ret);
        *asked_us = a->asked_us;
}

struct approval_list *approvals_of_process(void)
{
        static struct approval_list all;

        return &all;
}

struct approvals *approvals_new(struct event_base *base, struct approval_list *all,
                                const char *session, const char *principal,
                                const struct approval_host *host, void *data)
{
        struct approvals *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        *a = (struct approvals){
                .all = all, .session = session, .principal = principal, .host = host, .data = data};
        TAILQ_INIT(&a->waiting);
        a->deadline = evtimer_new(base, on_deadline, a);
        if (!a->deadline) {
                free(a);
                return NULL;
        }
        return a;
}

struct approvals *approvals_free(struct approvals *a)
{
        if (!a)
                return NULL;
        assert(TAILQ_EMPTY(&a->waiting));
        if (a->state == APPROVAL_ASKED)
                close_question(a, APPROVAL_WITHDRAWN);
        event_free(a->deadline);
        free(a->calls);
        free(a->shown);
        free(a->allowed);
        grants_done(&a->grants);
        free(a);
        return NULL;
}
