/* The messages in a body: documents, events, long ones, and what is too much. */
#include "supervisor/hub/http/incoming.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "rpc/lines.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/incoming-rig.h"
#include "tests/unit/test.h"

static struct event_base *base;
static struct exchange_loop *loop;

struct seen {
        struct rig rig;
        struct buffer messages; /* "event|text;" */
        unsigned events, parsed, ends, floods;
        size_t parsed_bytes;
        int parsed_r;
        bool is_over, refuses, frees;
        char why[128];
};

static bool on_message(void *data, const char *event, const char *text, size_t n)
{
        struct seen *s = data;

        check_eq_int(buffer_printf(&s->messages, "%s|%.*s;", event, (int)n, text), 0);
        if (s->frees) {
                incoming_done(&s->rig.in);
                s->is_over = true;
        }
        return !s->refuses;
}

static bool on_parsed(void *data, struct large_line *line)
{
        struct seen *s = data;

        s->parsed++;
        s->parsed_r = line->r;
        s->parsed_bytes = line->memfd >= 0 ? line->memfd_length : line->text.length;
        if (s->frees) {
                incoming_done(&s->rig.in);
                s->is_over = true;
        }
        return true;
}

static void on_event(void *data)
{
        ((struct seen *)data)->events++;
}

static void on_failed(void *data, const char *why)
{
        struct seen *s = data;

        check_eq_int(s->ends, 0);
        check(!s->why[0]);
        snprintf(s->why, sizeof(s->why), "%s", why);
        s->is_over = true;
        incoming_stop(&s->rig.in);
}

static void on_end(void *data)
{
        struct seen *s = data;

        s->ends++;
        s->is_over = true;
}

static const struct incoming_host host = {on_message, on_parsed, on_event, on_failed, on_end};

static void open_one(struct seen *s, bool has_events)
{
        *s = (struct seen){};
        buffer_init(&s->messages, 1 << 20);
        rig_init(&s->rig, loop, &host, s);
        incoming_begin(&s->rig.in, &s->rig.exchange, has_events);
}

static void done(struct seen *s)
{
        if (!s->frees)
                incoming_done(&s->rig.in);
        buffer_done(&s->messages);
}

static void turn(void)
{
        for (int i = 0; i < 4; i++)
                event_base_loop(base, EVLOOP_NONBLOCK);
}

static void until(const bool *over)
{
        alarm(60);
        while (!*over)
                event_base_loop(base, EVLOOP_ONCE);
        alarm(0);
}

/* Feeds the body and its end; checks the reported messages and events. */
static void check_body(bool has_events, const char *body, const char *messages, unsigned events)
{
        for (size_t piece = 1; piece <= strlen(body) + 1;
             piece = piece < 3 ? piece + 1 : 4 * piece) {
                struct seen s;
                open_one(&s, has_events);
                rig_feed(&s.rig, body, strlen(body), piece, &s.is_over);
                check_eq_int(s.ends, 0);
                incoming_finish(&s.rig.in);
                check_eq_int(s.ends, 1);
                check_eq_str(s.why, "");
                check_eq_bytes(buffer_bytes(&s.messages), s.messages.length, messages);
                check_eq_int(s.events, events);
                done(&s);
        }
}

static void test_bodies(void)
{
        check_body(false, "{\"a\":1}", "|{\"a\":1};", 0);
        check_body(false, "", "", 0);
        check_body(false, "data: x\n\n", "|data: x\n\n;", 0);
        check_body(true, "", "", 0);
        check_body(true, "data: x\n\n", "|x;", 1);
        check_body(true, "event: e\r\ndata: x\r\ndata: y\r\n\r\nid: 1\n\n:c\n\ndata: z\n\n",
                   "e|x\ny;|z;", 4);
        /* An event without its end is dropped. */
        check_body(true, "data: x\n\ndata: y\n", "|x;", 1);
        check_body(true, "{\"a\":1}", "", 0);
}

/* Which ids and times stay for the next attempt. */
static void test_what_stays(void)
{
        struct seen s;

        open_one(&s, true);
        rig_feed(&s.rig, "id: 7\nretry: 20\n\nid: 8\n", 23, 100, &s.is_over);
        incoming_finish(&s.rig.in);
        incoming_stop(&s.rig.in);
        check_eq_str(s.rig.in.events.last_id, "7");
        check_eq_int(s.rig.in.events.retry_ms, 20);
        s.is_over = false;
        incoming_begin(&s.rig.in, &s.rig.exchange, true);
        rig_feed(&s.rig, "data: a\n\n", 9, 100, &s.is_over);
        check_eq_bytes(buffer_bytes(&s.messages), s.messages.length, "|a;");
        check_eq_str(s.rig.in.events.last_id, "7");
        done(&s);
}

/* After a message that is one of a flood, nothing is read for a moment. */
static void test_flood(void)
{
        static const char body[] = "data: a\n\ndata: b\n\ndata: c\n\n";
        struct seen s;

        open_one(&s, true);
        s.refuses = true;
        size_t used = incoming_feed(&s.rig.in, body, sizeof(body) - 1);
        check_eq_int(used, 9);
        check(s.rig.exchange.is_paused);
        fake_clock_advance_ms(INCOMING_PAUSE_MS - 1);
        turn();
        check(s.rig.exchange.is_paused);
        fake_clock_advance_ms(1);
        turn();
        check(!s.rig.exchange.is_paused);
        s.refuses = false;
        check_eq_int(incoming_feed(&s.rig.in, body + used, sizeof(body) - 1 - used), 18);
        check(!s.rig.exchange.is_paused);
        check_eq_bytes(buffer_bytes(&s.messages), s.messages.length, "|a;|b;|c;");
        done(&s);
}

/* Bytes before, x n times, bytes after. */
static void feed_long(struct seen *s, const char *before, size_t n, const char *after)
{
        enum { PIECE = 1 << 20 };
        static char xs[PIECE];

        memset(xs, 'x', sizeof(xs));
        rig_feed(&s->rig, before, strlen(before), 1000, &s->is_over);
        for (size_t at = 0; at < n && !s->is_over; at += PIECE)
                rig_feed(&s->rig, xs, n - at < PIECE ? n - at : PIECE, 64 * 1024, &s->is_over);
        rig_feed(&s->rig, after, strlen(after), 1000, &s->is_over);
}

static void check_long(bool has_events, size_t n, const char *why)
{
        struct seen s;

        open_one(&s, has_events);
        feed_long(&s, has_events ? "data: \"" : "\"", n - 2, has_events ? "\"\n\n" : "\"");
        if (!s.is_over)
                incoming_finish(&s.rig.in);
        until(&s.is_over);
        check_has(s.why, why);
        check_eq_int(s.ends, !*why);
        check_eq_int(s.parsed, !*why);
        check_eq_int(s.rig.in.reservation.bytes, 0);
        done(&s);
}

static void test_longest(void)
{
        check_long(true, LINES_MAX, "");
        check_long(true, LINES_MAX + 1, "sent an event of more than 64 MiB");
        check_long(false, LINES_MAX, "");
        check_long(false, LINES_MAX + 1, "answered with more than 64 MiB");
}

/* A message is parsed in the background from RESERVATION_MIN on, and in its turn. */
static void test_long(void)
{
        struct seen s;

        open_one(&s, true);
        feed_long(&s, "data: 1\n\ndata: ", RESERVATION_MIN, "\n\ndata: 2\n\n");
        check_eq_int(s.parsed, 0);
        s.messages.length = 0;
        done(&s);
        open_one(&s, true);
        feed_long(&s, "data: 1\n\ndata: ", RESERVATION_MIN + 1, "\n\ndata: 2\n\n");
        check_eq_int(s.parsed, 1);
        check(s.parsed_r < 0);
        check_eq_bytes(buffer_bytes(&s.messages), s.messages.length, "|1;|2;");
        incoming_finish(&s.rig.in);
        check_eq_int(s.ends, 1);
        done(&s);
        /* Freed while it is parsed, and when it was. */
        open_one(&s, false);
        feed_long(&s, "", RESERVATION_MIN + 1, "");
        incoming_finish(&s.rig.in);
        check(s.rig.in.large);
        done(&s);
        turn();
        check_eq_int(s.parsed + s.ends, 0);
        open_one(&s, false);
        s.frees = true;
        feed_long(&s, "", RESERVATION_MIN + 1, "");
        incoming_finish(&s.rig.in);
        until(&s.is_over);
        check_eq_int(s.parsed, 1);
        check_eq_int(s.ends, 0);
        done(&s);
}

static void test_freed_by_a_message(void)
{
        for (int has_events = 0; has_events < 2; has_events++) {
                struct seen s;
                open_one(&s, has_events);
                s.frees = true;
                rig_feed(&s.rig, "data: a\n\ndata: b\n\n", 18, 100, &s.is_over);
                if (!has_events)
                        incoming_finish(&s.rig.in);
                check(s.is_over);
                check_eq_int(s.ends, 0);
                done(&s);
        }
}

/* One that is long has 30 s, of which the time that it waits for memory does not count. */
static void test_late(void)
{
        struct seen s;

        open_one(&s, true);
        feed_long(&s, "data: ", RESERVATION_MIN + 1, "");
        fake_clock_advance_ms(INCOMING_MESSAGE_MS - 1);
        turn();
        check_eq_str(s.why, "");
        rig_feed(&s.rig, "\n\n", 2, 2, &s.is_over);
        while (s.parsed == 0)
                event_base_loop(base, EVLOOP_ONCE);
        fake_clock_advance_ms(INCOMING_MESSAGE_MS);
        turn();
        check_eq_str(s.why, "");
        feed_long(&s, "data: ", RESERVATION_MIN + 1, "");
        fake_clock_advance_ms(INCOMING_MESSAGE_MS);
        turn();
        check_has(s.why, "not complete after 30 s");
        check_eq_int(s.rig.in.reservation.bytes, 0);
        done(&s);
}

/* Two have all the memory: a third waits, and gets that of the first after a second. */
static void test_memory_is_shared(void)
{
        struct seen s[3];

        for (int i = 0; i < 3; i++) {
                open_one(&s[i], true);
                feed_long(&s[i], "data: ", RESERVATION_MIN + 1, "");
        }
        check(!s[0].rig.exchange.is_paused && !s[1].rig.exchange.is_paused);
        check(s[2].rig.exchange.is_paused);
        fake_clock_advance_ms(RESERVATION_LINES_MS - 1);
        turn();
        check_eq_str(s[0].why, "");
        fake_clock_advance_ms(RESERVATION_LINES_MS / 4);
        turn();
        check_has(s[0].why, "and other servers waited");
        check_eq_str(s[1].why, "");
        check(!s[2].rig.exchange.is_paused);
        for (int i = 0; i < 3; i++)
                done(&s[i]);
}

int main(void)
{
        fake_clock_stop(true);
        base = event_base_new();
        check(base);
        check_eq_int(exchange_loop_new(&loop, base), 0);
        run(test_bodies);
        run(test_what_stays);
        run(test_flood);
        run(test_longest);
        run(test_long);
        run(test_freed_by_a_message);
        run(test_late);
        run(test_memory_is_shared);
        exchange_loop_free(loop);
        event_base_free(base);
        return 0;
}
