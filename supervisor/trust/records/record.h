/*
 * Records of the journal: one function for each kind. Who calls gives the facts; this file decides their form (docs/journal.md).
 *
 * `how` is the journal of the session's profile: without one, a function does nothing and returns 0.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/log-line.h"
#include "policy/config/types.h"

/* A call of a tool or a method that is about to be sent. */
struct record_call {
        struct log_ids ids;    /* session, cell, call, server, tool */
        const char *rule;      /* that allowed it, or NULL */
        const char *arguments; /* JSON, exactly as it is sent */
        size_t n;
        const char *digest; /* their SHA-256 as text */
};
/* *number: of its record, for record_answer(). Negative errno: the call must not be sent; err says why. */
int record_call(const struct config_journal *how, const struct record_call *call, uint64_t *number,
                struct error *err);

enum record_outcome {
        RECORD_COMMITTED, /* the server has answered */
        RECORD_FAILED,    /* it has answered with an error */
        RECORD_IN_DOUBT,  /* it was sent, and there is no answer */
        RECORD_NOT_SENT,  /* it was not sent, although it was recorded */
};
struct record_answer {
        struct log_ids ids;
        uint64_t of; /* number of the call's record; 0: there is none, and nothing is written */
        enum record_outcome outcome;
        uint64_t duration_us, bytes;
        const char *why; /* of a failure, or NULL */
};
void record_answer(const struct record_answer *answer);

/* Any other kind: ask, decision, denied, proposed. Members of `fields` follow those of the ids. Returns 0 or negative errno: it
 * was not written, and err says why. */
int record_fact(const struct config_journal *how, const char *kind, const struct log_ids *ids,
                const struct log_field *fields, size_t n, struct error *err);
/* An answer for a question that does not exist, or not any more. by: "client" or "terminal". Does nothing without a journal of the
 * server. */
void record_refused_answer(const char *by, const char *id, const char *sha256, const char *why);

/* An event of the service (supervisor/service/event.h). */
void record_event(const struct log_ids *ids, const struct log_record *record);
