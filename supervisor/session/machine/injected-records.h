/*
 * Requests with secrets in the journal: a `call` of @network.request before the request is sent, and its `answer` (docs/journal.md). A request
 * that waits for the journal, or for its end, has an entry; a session has INJECTED_RECORDS_MAX at most.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct session;
struct injected_record;

enum { INJECTED_RECORDS_MAX = 64 };

struct injected_call {
        uint32_t serial;
        const char *arguments; /* JSON, as the rules have it */
        size_t n;
        const char *rule, *why; /* that decided, and why the request is refused; or NULL */
};

/* Called once, also from inside injected_record_call(). err: why the request must not be sent, or NULL. */
typedef void injected_recorded_fn(struct session *session, uint32_t serial, bool is_recorded,
                                  const struct error *err);

/* Without a journal of the profile it has no record. */
void injected_record_call(struct session *session, const struct injected_call *call,
                          injected_recorded_fn *done);
void injected_record_denied(const struct session *session, const struct injected_call *call);
/* how: the status of the response, INJECT_IN_DOUBT or INJECT_NOT_SENT. */
void injected_record_end(struct session *session, uint32_t serial, unsigned how, uint64_t bytes);
/* All that have not ended: those that were sent are in doubt. */
void injected_records_done(struct session *session);
