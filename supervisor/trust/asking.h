/*
 * The questions about calls of one session: holds it (supervisor/session/hold.h), and asks the client of its cell and the
 * terminal (questions/approval.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/trust/questions/approval.h"

struct asking;
struct session;

/* A call that waits. The owner keeps what `approval.call` points to, until decided() or asking_drop(). */
struct asking_call {
        struct approval_call approval;
        /* why: for the code, of a call that is not allowed; valid during the call. */
        void (*decided)(struct asking_call *call, bool is_allowed, const char *why);
};

/* A rule asks about a call of this session; approval.call and decided are set. *asking: made with the first call. Returns as
 * approvals_add(); *why is static. */
enum approval_verdict asking_ask(struct asking **asking, struct session *session,
                                 struct asking_call *call, const char **why);
/* "ask" of the profile of a session. */
struct approval_settings asking_settings(const struct session *session);
/* The code does not wait for the call any more. */
void asking_drop(struct asking *asking, struct asking_call *call);
/* Decides calls that wait, where the rules have changed. */
void asking_recheck(struct asking *asking,
                    bool (*decides)(struct asking_call *call, bool *is_allowed, const char **why));
/* Its calls were dropped. NULL is allowed. */
struct asking *asking_free(struct asking *asking);
