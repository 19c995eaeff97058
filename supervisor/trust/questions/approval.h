/*
 * The questions to a person about calls of a session, one at a time.
 *
 * Theory of operation. A question goes through these states:
 *
 *     collecting → held → asked → answered | expired | withdrawn → released
 *
 * Collecting: the owner holds the session (hold()); all calls until it stands still are one question. Held: the calls are fixed,
 * and what will be sent is what is shown. Asked: the client of the cell has the form, or `cloister approve` or a page can answer, or
 * several of them; the first answer counts. Calls that come later wait for the next question of the session. At the end the owner has to release
 * the session; the calls are decided when it confirms that nothing has run since, and before anything runs.
 *
 * A decline or cancel within APPROVAL_SHOWN_MS is not the answer of a person: clients exist that declare elicitation and show
 * nothing. Only the terminal or a page can answer then.
 *
 * A page has an address that cannot be guessed, and belongs to the principal of the session (supervisor/http/ask-page.h). A client that can
 * only open addresses gets that; its "accept" says that the page was opened, and answers nothing.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "rpc/client-request.h"
#include "supervisor/trust/questions/approval-answer.h"
#include "supervisor/trust/questions/grants.h"
#include "supervisor/trust/questions/question-text.h"

#define APPROVAL_NO_MEMORY "no person can be asked: out of memory"

enum {
        APPROVAL_WAITING_MAX = 16 * 1024 * 1024, /* arguments of all calls of a session that wait */
        APPROVAL_BYTES_MAX = 4 * 1024 * 1024,    /* arguments of one question */
        APPROVAL_SHOWN_MS = 300,
        APPROVAL_PAGE_MAX = 200, /* bytes of what is before the path of a page */
        APPROVAL_WRONG_MAX = 10, /* wrong tokens of a page; then it is closed */
};

#define APPROVAL_PAGE_PATH "/ask/"

enum approval_state {
        APPROVAL_NONE,
        APPROVAL_COLLECTING,
        APPROVAL_HELD,
        APPROVAL_ASKED,
        APPROVAL_ANSWERED,
        APPROVAL_EXPIRED,
        APPROVAL_WITHDRAWN,
        APPROVAL_RELEASED,
        APPROVAL_STATES,
};
const char *approval_state_name(enum approval_state state);

struct approvals;

/* "ask" of the profile; bits of `by`. */
struct approval_settings {
        bool by_client, by_terminal, whole;
        bool is_plan; /* about a plan: the answer is once, no or rows */
        char page[APPROVAL_PAGE_MAX +
                  1]; /* "https://cloister.example.org", or "": there are no pages */
        uint32_t wait_ms, timeout_ms, per_cell;
};

/* A call that waits. The owner embeds it, and keeps what `call` points to. */
struct approval_call {
        struct question_call call;
        uint64_t cell;
        TAILQ_ENTRY(approval_call) link; /* of those that wait for a question */
        size_t bytes;                    /* counted of it */
        size_t row;                      /* from 1: in the question; 0: it waits for one */
        bool is_at_client;               /* the client's message has a line of it */
        bool is_unrecorded; /* a person has allowed it, but the answer could not be recorded */
};

/* The end of a question. */
struct approval_event {
        const char *name; /* asked, answered, refused (an answer), not shown, expired, withdrawn */
        const char *who;  /* has answered: "client", "terminal", "page" or "" */
        enum question_scope scope;
        const bool *allowed; /* answered: of each call of the question; NULL: none */
        const char *sha256;  /* refused: what the answer was about … */
        const char *why;     /* … and why */
};

/* The functions of the owner. None may free the approvals. */
struct approval_host {
        /* The session must stand still: approvals_held() or approvals_gone() follows, but not from inside. */
        void (*hold)(void *data);
        /* It need not any more: approvals_released() or approvals_gone() follows, but not from inside. */
        void (*release)(void *data);
        /* Asks the client of the cell that runs. Returns 0, and answered() of the ask follows, but not from inside; or negative
         * errno, and the client cannot be asked. */
        int (*ask_client)(void *data, struct client_ask *ask, struct error *err);
        /* The question can be answered in this way, too. Returns false if no person can see that. */
        bool (*ask_person)(void *data, const struct person_way *way);
        /* That is over. */
        void (*end_person)(void *data);
        /* The page of this elicitationId, which the client got a request to open, is not needed any more. */
        void (*page_done)(void *data, const char *page);
        /* The call is sent, or is not: why. The call is the owner's again. */
        void (*decide)(void *data, struct approval_call *call, bool is_allowed, const char *why);
        /* For the journal. Returns 0 or negative errno with an error: an answer that could not be recorded allows nothing. May be
         * NULL. */
        int (*record)(void *data, struct approvals *approvals, const struct approval_event *event,
                      struct error *err);
};

LIST_HEAD(approval_list, approvals);

/* The list of the sessions of this process. */
struct approval_list *approvals_of_process(void);

/* session, principal: kept by the owner. all: the list of all sessions that ask. Returns NULL when out of memory. */
struct approvals *approvals_new(struct event_base *base, struct approval_list *all,
                                const char *session, const char *principal,
                                const struct approval_host *host, void *data);
/* Nothing is decided any more: call it when the calls were dropped. */
struct approvals *approvals_free(struct approvals *approvals);

enum approval_verdict { APPROVAL_ALLOWED, APPROVAL_DENIED, APPROVAL_WAITS };
/* A rule asks about this call. settings count for the question that it is part of. WAITS: decide() follows, unless the call is
 * dropped. DENIED: *why is a static text. */
enum approval_verdict approvals_add(struct approvals *approvals, struct approval_call *call,
                                    const struct approval_settings *settings, const char **why);
/* The session stands still. */
void approvals_held(struct approvals *approvals);
/* Nothing has run since: decides the calls. The session may continue then. */
void approvals_released(struct approvals *approvals);
/* The session does not stand still any more: all calls are denied. why: static. */
void approvals_gone(struct approvals *approvals, const char *why);
/* The code does not wait for the call any more. */
void approvals_drop(struct approvals *approvals, struct approval_call *call);
/* Ends the question; its calls, and those that wait, are denied. why: static. */
void approvals_withdraw(struct approvals *approvals, const char *why);
/* The cell ends: the same for its calls; its grants end. */
void approvals_end_cell(struct approvals *approvals, uint64_t cell, const char *why);
/* The sandbox ends: all grants end. */
void approvals_forget(struct approvals *approvals);
/* Calls `decides` for each call that waits; those for which it returns true are decided without a person: it sets *is_allowed. */
void approvals_recheck(struct approvals *approvals,
                       bool (*decides)(void *data, struct approval_call *call, bool *is_allowed,
                                       const char **why));

/* ---- who answers ---- */

enum approval_by { APPROVAL_BY_TERMINAL, APPROVAL_BY_PAGE };

/* An answer for the question of this id, about calls of this digest. Returns 0; -ENOENT, -EACCES (not at a terminal), -EBADMSG or -EINVAL
 * with an error. */
int approvals_answer(struct approval_list *all, enum approval_by by, const char *id,
                     const char *sha256, const struct approval_answer *answer, struct error *err);
/* The question whose page has this name, the last part of its address; NULL: there is none, or its page is closed. */
struct approvals *approvals_find_page(const struct approval_list *all, const char *page);
/* Who has opened the page has not shown whose it is. The page may be closed by that. */
void approvals_wrong_token(struct approvals *approvals);
/* The config has changed: closes the pages whose address (of their settings) is not served any more. */
void approvals_close_pages(struct approval_list *all, const void *data,
                           bool (*is_served)(const void *data, const char *address));

/* ---- the text of a question ---- */

enum approval_state approvals_state(const struct approvals *approvals);
/* How many calls the question has; *since_us: when it began. 0: there is none. */
size_t approvals_count(const struct approvals *approvals, uint64_t *since_us);
/* The next session that has asked a person, after `before` or the first; NULL: there is none. */
struct approvals *approvals_next(const struct approval_list *all, const struct approvals *before);
/* The question as a person sees it. *asked_us: since when. */
void approvals_view(struct approvals *approvals, struct question_view *ret, uint64_t *asked_us);
