/*
 * A session that stands still while a person decides (docs/standing-still.md).
 *
 * Theory of operation
 *
 *     none ──session_hold()──► collecting: HOLD was sent to the worker
 *     ──SETTLED, or HOLD_SETTLE_MS──► stopping: the monitor stops all processes
 *     ──SESSION_HELD──► held; the frames that the worker has sent before are handled first
 *     ──the last holder releases──► none: HELD is sent, and the processes continue
 *
 * Several holders can hold a session; it stands still until none is left. Only a session that runs a cell can be held. If it leaves
 * that state (the cell ends, is interrupted or cancelled, the sandbox is killed), the hold is withdrawn: all holders get gone(), and
 * the processes continue before anything else is sent to them.
 *
 * From HOLD to HELD no time counts for the cell and its calls, and the clock of the guest's event loops stands still.
 *
 * Without a control group code can continue itself. Init notices it, and the session is killed. A holder that waits for released()
 * before it acts knows that nothing has run since held().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "rpc/frame.h"
#include "supervisor/session/channel/frame-body.h"

struct session;

enum { HOLD_SETTLE_MS = 200 };

/* A holder. The caller fills data and the functions in, all of which may be NULL; hold.c writes the rest. The functions are called
 * from the event loop, never from inside a function of this header or of the session, and may call the functions of this header.
 * They must not free the session. */
struct hold_request {
        void *data;
        /* All processes have stopped, and all that they have sent was handled. Once. */
        void (*held)(void *data);
        /* After session_release(): nothing has run since held(). The processes continue after it, unless others hold them. The
         * request is not in use any more. */
        void (*released)(void *data);
        /* The hold was withdrawn. The request is not in use any more. */
        void (*gone)(void *data, const char *why);

        TAILQ_ENTRY(hold_request) link;
        struct session *session; /* NULL: not in use */
        enum hold_stage { HOLD_WAITS, HOLD_TOLD, HOLD_LEAVES, HOLD_GONE } stage;
};

/* Holds a session that runs a cell. Returns 0, -ENOTCONN if it runs none, or another negative errno. After 0, exactly one of
 * released() and gone() follows, unless session_hold_drop() is called. */
int session_hold(struct session *session, struct hold_request *request, struct error *err);
/* The person has decided: released() or gone() follows. */
void session_release(struct hold_request *request);
/* As session_release(), at once and without a call of released() or gone(). Nothing if the request is not in use. */
void session_hold_drop(struct hold_request *request);

/* Whether it stands still, or is about to. */
bool session_is_held(const struct session *session);

/* ---- for the modules of a session ---- */

/* Handler of SETTLED frames. */
int hold_on_settled(struct session *session, const struct frame_header *header,
                    struct frame_body *body, struct error *err);
/* SESSION_HELD. */
void hold_take_held(struct session *session, uint32_t number);
/* SESSION_HOLD has failed: kills the session. */
void hold_take_failure(struct session *session);
/* SESSION_RAN: kills the session. */
void hold_take_ran(struct session *session);
/* Withdraws the hold: the session does not run a cell any more. why: a static text. */
void hold_withdraw(struct session *session, const char *why);
/* The session is freed. Calls gone() of those that are left. */
void hold_free(struct session *session);
