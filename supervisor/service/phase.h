/*
 * The phases of a server, and how it refuses a call.
 *
 * The process has one server, and so one phase. A draining server runs no new calls; until it stops, calls in live sessions may
 * still begin (`cloister drain`).
 *
 * A call that is refused was not begun: no part of it has run. Over HTTP the answer is a JSON-RPC error with the code
 * SERVICE_REFUSED and the data {"reason", "retry_after"?}, and the status and the header Retry-After say the same to a balancer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum service_phase { SERVICE_STARTING, SERVICE_READY, SERVICE_DRAINING, SERVICE_PHASES };

enum service_phase service_phase(void);
const char *service_phase_name(enum service_phase phase);

/* A sandbox has answered, or nothing waits for one. Ends draining, too. */
void service_set_ready(void);
/* stopping: no call begins any more; false: calls in live sessions do. deadline_us: as of clock_us(); UINT64_MAX: none. */
void service_set_draining(bool stopping, uint64_t deadline_us);

/* Whether the server drains and no call may begin, not even in a live session. */
bool service_is_stopping(void);
/* When a draining server stops waiting for what runs; UINT64_MAX: never, or it does not drain. */
uint64_t service_draining_deadline(void);

/* ---- the answer to a refused call ---- */

enum {
        SERVICE_REFUSED = -32000, /* code of the JSON-RPC error */
        SERVICE_RETRY_MAX_S = 60,
};

enum service_reason {
        SERVICE_FULL,  /* no place for a sandbox, or too many calls: another server may have one */
        SERVICE_QUOTA, /* the principal has as much as it may have: another server would not help */
        SERVICE_BUSY, /* too many calls, and the session of this one lives here: another server has not its variables */
        SERVICE_STOPPED, /* the server is draining */
        SERVICE_REASONS
};

/* "full", "quota", "busy", "draining". */
const char *service_reason_name(enum service_reason reason);

struct service_refusal {
        enum service_reason reason;
        unsigned retry_after_s; /* 1 to SERVICE_RETRY_MAX_S, an estimate */
        char text[200];         /* one sentence for a person */
};

/* Fills a refusal; retry_ms is rounded up and bounded. */
void service_refuse(struct service_refusal *ret, enum service_reason reason, uint64_t retry_ms,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A call is refused because the server drains. */
void service_refuse_draining(struct service_refusal *ret);
/* The status of the HTTP response: 503, or 429 where another server would not help. */
int service_refusal_status(const struct service_refusal *refusal);
/* Appends {"reason", "retry_after"}. */
int service_refusal_append(const struct service_refusal *refusal, struct buffer *to);
