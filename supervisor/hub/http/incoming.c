/* The messages in the body of one response. */
#include "supervisor/hub/http/incoming.h"

#include <errno.h>

#include "base/clock.h"
#include "rpc/lines.h"

static void drop_reservation(struct incoming *in)
{
        memory_reservation_drop(&in->reservation);
        event_del(&in->late);
}

static void fail(struct incoming *in, const char *why)
{
        drop_reservation(in);
        in->host->failed(in->data, why);
}

static void on_late(evutil_socket_t fd, short what, void *data)
{
        struct incoming *in = data;
        const struct timeval in_time = clock_timeval_ms(INCOMING_MESSAGE_MS);

        /* The delay was not the server's. */
        if (in->reservation.waits || in->large)
                evtimer_add(&in->late, &in_time);
        else
                fail(in, "sent a message that was not complete after 30 s");
}

/* Unless a long message is parsed, or waits for memory. */
static void read_on(struct incoming *in)
{
        if (in->exchange && !in->large && !in->reservation.waits &&
            !evtimer_pending(&in->pause, NULL))
                exchange_resume(in->exchange);
}

static void on_granted(void *data)
{
        read_on(data);
}

static void on_pause_over(evutil_socket_t fd, short what, void *data)
{
        read_on(data);
}

static void pause_reading(struct incoming *in)
{
        const struct timeval in_time = clock_timeval_ms(INCOMING_PAUSE_MS);

        if (!in->exchange)
                return;
        exchange_pause(in->exchange);
        evtimer_add(&in->pause, &in_time);
}

/* Bytes of the message that has begun. */
static size_t begun(const struct incoming *in)
{
        if (!in->has_events)
                return in->text.length;
        return in->events.is_over ? 0 : in->events.data.length;
}

static void on_revoked(void *data)
{
        fail(data, "sent a message that was not complete after a second, and other servers waited");
}

static void reserve_memory(struct incoming *in)
{
        const struct timeval in_time = clock_timeval_ms(INCOMING_MESSAGE_MS);
        const struct memory_reservation_owner owner = {in->base, on_granted, on_revoked, in};

        if (in->reservation.bytes > 0 || begun(in) <= RESERVATION_MIN)
                return;
        if (!memory_reservation_ask(&in->reservation, RESERVATION_LINES, LINES_MAX, &owner))
                exchange_pause(in->exchange);
        evtimer_add(&in->late, &in_time);
}

static void finish(struct incoming *in)
{
        drop_reservation(in);
        in->host->end(in->data);
}

static void on_parsed(void *data, struct large_line *line)
{
        struct incoming *in = data;
        bool freed = false;

        in->large = NULL;
        drop_reservation(in);
        in->freed = &freed;
        bool goes_on = in->host->parsed(in->data, line);
        if (freed)
                return;
        in->freed = NULL;
        if (in->is_over)
                finish(in);
        else if (goes_on)
                read_on(in);
        else
                pause_reading(in);
}

/* Parses a long message in the background. */
static void take_large(struct incoming *in, struct buffer *text)
{
        if (in->exchange)
                exchange_pause(in->exchange);
        memory_reservation_complete(&in->reservation);
        in->large = large_line_start(in->base, text, true, on_parsed, in);
        if (!in->large)
                fail(in, "sent a message that needs more memory than there is");
}

/* An event is complete. Returns false when nothing more may be read now. */
static bool take_event(struct incoming *in)
{
        struct event_stream *s = &in->events;
        bool freed = false, goes_on = true;
        size_t n;
        const char *text = event_stream_data(s, &n);

        in->host->event(in->data);
        in->freed = &freed;
        if (n > 0 && n <= RESERVATION_MIN)
                goes_on = in->host->message(in->data, s->name, text, n);
        if (freed)
                return false;
        in->freed = NULL;
        if (n <= RESERVATION_MIN) {
                drop_reservation(in);
                if (!goes_on)
                        pause_reading(in);
                return goes_on && in->exchange;
        }
        struct buffer large = s->data;
        large.length--;
        buffer_init(&s->data, large.limit);
        take_large(in, &large);
        return false;
}

static size_t feed_events(struct incoming *in, const char *bytes, size_t n)
{
        size_t at = 0, used;
        int r;

        while ((r = event_stream_feed(&in->events, bytes + at, n - at, &used)) == 1) {
                at += used;
                if (!take_event(in))
                        return at;
        }
        if (r < 0) {
                fail(in, r == -EMSGSIZE ? "sent an event of more than 64 MiB"
                                        : "sent an event that needs more memory than there is");
                return n;
        }
        reserve_memory(in);
        return n;
}

size_t incoming_feed(struct incoming *in, const char *bytes, size_t n)
{
        if (in->has_events)
                return feed_events(in, bytes, n);
        int r = buffer_append(&in->text, bytes, n);
        if (r < 0)
                fail(in, r == -EMSGSIZE ? "answered with more than 64 MiB"
                                        : "sent an answer that needs more memory than there is");
        else
                reserve_memory(in);
        return n;
}

void incoming_finish(struct incoming *in)
{
        bool freed = false;

        in->is_over = true;
        in->exchange = NULL;
        if (in->large)
                return;
        if (in->has_events || in->text.length == 0) {
                finish(in);
                return;
        }
        if (in->text.length > RESERVATION_MIN) {
                take_large(in, &in->text);
                return;
        }
        in->freed = &freed;
        in->host->message(in->data, "", buffer_bytes(&in->text), in->text.length);
        if (freed)
                return;
        in->freed = NULL;
        finish(in);
}

void incoming_init(struct incoming *in, struct event_base *base, const struct incoming_host *host,
                   void *data)
{
        *in = (struct incoming){.base = base, .host = host, .data = data};
        buffer_init(&in->text, LINES_MAX);
        event_stream_init(&in->events, LINES_MAX + 1);
        evtimer_assign(&in->late, base, on_late, in);
        evtimer_assign(&in->pause, base, on_pause_over, in);
}

void incoming_begin(struct incoming *in, struct exchange *exchange, bool has_events)
{
        incoming_stop(in);
        in->exchange = exchange;
        in->has_events = has_events;
        in->is_over = false;
}

/* The last id, and the time to the next attempt, stay. */
void incoming_stop(struct incoming *in)
{
        struct event_stream fresh;

        in->large = large_line_cancel(in->large);
        drop_reservation(in);
        event_del(&in->pause);
        in->exchange = NULL;
        buffer_done(&in->text);
        event_stream_init(&fresh, LINES_MAX + 1);
        memcpy(fresh.last_id, in->events.last_id, sizeof(fresh.last_id));
        fresh.retry_ms = in->events.retry_ms;
        event_stream_done(&in->events);
        in->events = fresh;
}

void incoming_done(struct incoming *in)
{
        if (in->freed)
                *in->freed = true;
        incoming_stop(in);
        event_stream_done(&in->events);
}
