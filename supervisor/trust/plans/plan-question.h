/*
 * The question about a plan. The code has not begun, so no session has to stand still: the calls are those of the plan, which nothing
 * changes any more.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "policy/config/types.h"
#include "rpc/client-request.h"
#include "supervisor/trust/plans/plan.h"
#include "supervisor/trust/questions/approval.h"

struct plan_question;

/* The functions of the owner, as those of struct approval_host. */
struct plan_asker {
        int (*ask_client)(void *data, struct client_ask *ask, struct error *err);
        bool (*ask_person)(void *data, const struct person_way *way);
        void (*end_person)(void *data);
        void (*page_done)(void *data, const char *page);
        /* Each row that asks is allowed or not. why: of those that are not, or "". Not from inside a function of this header; may free
         * the question. */
        void (*decided)(void *data, bool is_any_allowed, const char *why);
        void *data;
};

/*
 * Asks a person about the rows that ask, of which there is at least one. settings, journal: of the profile; session: its name
 * without the principal; ids: of the session. All texts are kept by the owner. Returns NULL when out of memory.
 */
struct plan_question *plan_question_new(struct event_base *base, struct plan *plan,
                                        const struct log_ids *ids, const char *session,
                                        const char *principal,
                                        const struct approval_settings *settings,
                                        const struct config_journal *journal,
                                        const struct plan_asker *asker);
/* The question ends, if it is open. NULL is allowed. Returns NULL. */
struct plan_question *plan_question_free(struct plan_question *question);
