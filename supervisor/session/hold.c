/* Holds a session: HOLD, SETTLED and HELD to and from the worker, SESSION_HOLD to the monitor. */
#include "supervisor/session/hold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/json-out.h"
#include "base/log.h"
#include "base/loop.h"
#include "supervisor/session/calls/calls.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/queue.h"

enum {
        READS_MAX =
                20, /* turns of the loop in which frames that were sent before the stop are read */
        HELD_TEXT = 64,
};

struct session_hold {
        struct session *session;
        enum { HOLD_NONE, HOLD_COLLECTING, HOLD_STOPPING, HOLD_READING, HOLD_HELD } state;
        TAILQ_HEAD(, hold_request) requests;
        uint32_t number;    /* of the last HOLD or SESSION_HOLD: they share it */
        uint32_t asked;     /* of the HOLD */
        uint32_t confirmed; /* of the last SESSION_HELD */
        struct event *settle, *tell;
        int reads;
        uint64_t begun_us, settled_us; /* HOLD and SESSION_HOLD were sent */
        uint64_t since_us;             /* all have stopped; 0: not yet */
        struct cell *cell;             /* whose time stands still */
        const char *why;               /* it was withdrawn */
};

static bool is_on(const struct session_hold *h)
{
        return h && h->state != HOLD_NONE;
}

bool session_is_held(const struct session *s)
{
        return is_on(s->hold);
}

static void tell_soon(struct session_hold *h)
{
        const struct timeval now = {};

        evtimer_add(h->tell, &now);
}

static void request_stop(struct session_hold *h)
{
        const struct session *s = h->session;

        h->number = h->number == INT32_MAX ? 1 : h->number + 1;
        sandbox_request(&s->context->requests, MONITOR_SESSION_HOLD, s->target, h->number);
}

/* ---- begin and end ---- */

static void stand_still(struct session_hold *h, bool does)
{
        struct session *s = h->session;

        s->stands_still = does;
        channel_stand_still(&s->channel, does);
        calls_stand_still(s, does);
        principal_count(s->principal, does ? -1 : 1, 0);
        if (does)
                cell_hold(h->cell);
        else if (session_current(s) == h->cell)
                cell_release(h->cell);
}

static int begin(struct session_hold *h)
{
        const struct timeval settle = clock_timeval_ms(HOLD_SETTLE_MS);
        struct session *s = h->session;

        h->number = h->number == INT32_MAX ? 1 : h->number + 1;
        int r = channel_send(&s->channel, FRAME_HOLD, h->number, "", 0);
        if (r < 0)
                return r;
        h->asked = h->number;
        h->state = HOLD_COLLECTING;
        h->begun_us = clock_us();
        h->since_us = 0;
        h->cell = session_current(s);
        evtimer_add(h->settle, &settle);
        stand_still(h, true);
        return 0;
}

/* HELD must be in the socket before the processes continue. A worker that cannot be sent it has left too much unread. */
static void send_held(struct session_hold *h)
{
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(HELD_TEXT);
        uint64_t us = h->since_us ? clock_us() - h->since_us : 0;
        struct json_out out = {.to = &text};
        struct session *s = h->session;

        json_out_begin(&out, NULL, '{');
        json_out_int(&out, "us", (int64_t)us);
        json_out_end(&out, '}');
        int r = out.error;
        if (r >= 0)
                r = channel_send(&s->channel, FRAME_HELD, h->asked, buffer_bytes(&text),
                                 text.length);
        if (r < 0 && r != -ENOTCONN)
                session_kill_sandbox(
                        s, END_PROTOCOL,
                        "the session could not continue: too many answers wait in the channel");
}

/* A sandbox that is being killed does not run again. Where the worker has ended, or is about to, init must run. */
static void end(struct session_hold *h)
{
        struct session *s = h->session;
        bool was_stopped = h->state >= HOLD_STOPPING;

        h->state = HOLD_NONE;
        event_del(h->settle);
        stand_still(h, false);
        if (session_is_usable(s))
                send_held(h);
        if (was_stopped && s->state >= SESSION_IDLE && s->state <= SESSION_CLOSED)
                sandbox_request(&s->context->requests, MONITOR_SESSION_HOLD, s->target, 0);
}

/* ---- calls of the holders' functions ---- */

static bool is_due(const struct session_hold *h, const struct hold_request *r)
{
        switch (r->stage) {
        case HOLD_WAITS:
                return h->state == HOLD_HELD;
        case HOLD_LEAVES:
                return h->state != HOLD_HELD || h->confirmed == h->number;
        case HOLD_GONE:
                return true;
        default:
                return false;
        }
}

static void leave(struct session_hold *h, struct hold_request *r)
{
        TAILQ_REMOVE(&h->requests, r, link);
        r->session = NULL;
}

/* The request may be freed by its function. */
static void tell_one(struct session_hold *h, struct hold_request *r)
{
        enum hold_stage stage = r->stage;

        if (stage == HOLD_WAITS)
                r->stage = HOLD_TOLD;
        else
                leave(h, r);
        if (stage == HOLD_WAITS && r->held)
                r->held(r->data);
        else if (stage == HOLD_LEAVES && r->released)
                r->released(r->data);
        else if (stage == HOLD_GONE && r->gone)
                r->gone(r->data, h->why);
}

static void tell_all(struct session_hold *h)
{
        struct hold_request *r = TAILQ_FIRST(&h->requests);

        while (r) {
                bool is_told = is_due(h, r);
                if (is_told)
                        tell_one(h, r);
                r = is_told ? TAILQ_FIRST(&h->requests) : TAILQ_NEXT(r, link);
        }
}

/* Whether the worker has sent more than was read. */
static bool has_more(const struct session *s)
{
        int n = 0;

        return s->channel.fd >= 0 && ioctl(s->channel.fd, FIONREAD, &n) == 0 && n > 0;
}

static void on_tell(evutil_socket_t fd, short what, void *data)
{
        struct session_hold *h = data;

        if (h->state == HOLD_READING && has_more(h->session) && ++h->reads < READS_MAX) {
                tell_soon(h);
                return;
        }
        if (h->state == HOLD_READING)
                h->state = HOLD_HELD;
        tell_all(h);
        if (is_on(h) && TAILQ_EMPTY(&h->requests))
                end(h);
}

/* ---- news ---- */

static void stop(struct session_hold *h)
{
        event_del(h->settle);
        h->state = HOLD_STOPPING;
        h->settled_us = clock_us();
        request_stop(h);
}

static void on_settle(evutil_socket_t fd, short what, void *data)
{
        stop(data);
}

int hold_on_settled(struct session *s, const struct frame_header *header, struct frame_body *body,
                    struct error *err)
{
        struct session_hold *h = s->hold;

        if (!h || header->id > h->number)
                return error_set(err, EPROTO, "SETTLED without a HOLD");
        if (h->state == HOLD_COLLECTING && header->id == h->asked)
                stop(h);
        return 0;
}

void hold_take_held(struct session *s, uint32_t number)
{
        struct session_hold *h = s->hold;

        if (!h || number != h->number || h->state < HOLD_STOPPING)
                return;
        h->confirmed = number;
        if (h->state == HOLD_STOPPING) {
                h->state = HOLD_READING;
                h->reads = 0;
                h->since_us = clock_us();
                log_debug("session %s stands still: settled after %llu us, stopped after %llu us",
                          s->name, (unsigned long long)(h->settled_us - h->begun_us),
                          (unsigned long long)(h->since_us - h->settled_us));
        }
        tell_soon(h);
}

void hold_withdraw(struct session *s, const char *why)
{
        struct session_hold *h = s->hold;
        struct hold_request *r;

        if (!is_on(h))
                return;
        h->why = why;
        TAILQ_FOREACH (r, &h->requests, link)
                r->stage = HOLD_GONE;
        end(h);
        tell_soon(h);
}

/* gone() follows. */
static void kill_held(struct session *s, const char *why)
{
        if (is_on(s->hold))
                session_kill_sandbox(s, END_PROTOCOL, why);
}

void hold_take_failure(struct session *s)
{
        kill_held(s, "its processes could not be stopped while a person was being asked");
}

void hold_take_ran(struct session *s)
{
        kill_held(s, "its code continued its own processes while a person was being asked");
}

/* ---- holders ---- */

static int open_hold(struct session *s)
{
        struct session_hold *h = calloc(1, sizeof(*h));

        if (!h)
                return -ENOMEM;
        *h = (struct session_hold){.session = s};
        TAILQ_INIT(&h->requests);
        s->hold = h;
        h->settle = evtimer_new(s->context->base, on_settle, h);
        h->tell = evtimer_new(s->context->base, on_tell, h);
        if (h->settle && h->tell)
                return 0;
        hold_free(s);
        return -ENOMEM;
}

int session_hold(struct session *s, struct hold_request *r, struct error *err)
{
        int result = s->hold ? 0 : open_hold(s);

        if (result >= 0 && s->state != SESSION_RUNNING)
                return error_set(err, ENOTCONN, "the session runs no code");
        if (result >= 0 && !is_on(s->hold))
                result = begin(s->hold);
        if (result < 0)
                return error_errno(err, -result, "hold session \"%s\"", session_key_name(s->name));
        r->session = s;
        r->stage = HOLD_WAITS;
        TAILQ_INSERT_TAIL(&s->hold->requests, r, link);
        if (s->hold->state == HOLD_HELD)
                tell_soon(s->hold);
        return 0;
}

void session_release(struct hold_request *r)
{
        struct session_hold *h = r->session ? r->session->hold : NULL;

        if (!h || r->stage == HOLD_GONE || r->stage == HOLD_LEAVES)
                return;
        r->stage = HOLD_LEAVES;
        if (h->state == HOLD_HELD)
                request_stop(h);
        else
                tell_soon(h);
}

void session_hold_drop(struct hold_request *r)
{
        struct session_hold *h = r->session ? r->session->hold : NULL;

        if (!h)
                return;
        leave(h, r);
        if (is_on(h) && TAILQ_EMPTY(&h->requests))
                tell_soon(h);
}

void hold_free(struct session *s)
{
        struct session_hold *h = s->hold;

        if (!h)
                return;
        hold_withdraw(s, "the session has ended");
        tell_all(h);
        loop_event_free(&h->settle);
        loop_event_free(&h->tell);
        s->hold = NULL;
        free(h);
}
