/*
 * A response of a hostile server: the lines of its head, then its body as messages or events. The byte 1
 * in the body stands for 48 KiB, so that long messages are reached. Accepted when the head is whole, and the
 * body brings a message and ends without a failure. The reports do not depend on the pieces' size.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/incoming-rig.h"

enum { PADS_MAX = 8, PAD = 48 * 1024 };

struct outcome {
        struct rig rig;
        unsigned messages, parsed, events;
        uint64_t hash;
        bool is_over, has_failed, was_freed;
};

static void add(struct outcome *o, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                o->hash = (o->hash ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
        o->hash = (o->hash ^ 0x100) * 0x100000001b3ull;
}

/* Some messages are one of a flood, some end all. */
static bool on_message(void *data, const char *event, const char *text, size_t n)
{
        struct outcome *o = data;

        assert(!o->is_over && n > 0 && n <= RESERVATION_MIN);
        o->messages++;
        add(o, event, strlen(event));
        add(o, text, n);
        bool goes_on = text[0] != '!';
        if (text[0] == 'F') {
                incoming_done(&o->rig.in);
                o->is_over = o->was_freed = true;
        }
        return goes_on;
}

static bool on_parsed(void *data, struct large_line *line)
{
        struct outcome *o = data;

        assert(!o->is_over);
        o->parsed++;
        o->hash = (o->hash ^ (line->memfd >= 0 ? line->memfd_length : line->text.length)) *
                  0x100000001b3ull;
        return line->r < 0;
}

static void on_event(void *data)
{
        struct outcome *o = data;

        assert(!o->is_over && strlen(o->rig.in.events.last_id) <= EVENT_ID_MAX);
        o->events++;
        add(o, o->rig.in.events.last_id, strlen(o->rig.in.events.last_id));
}

static void on_failed(void *data, const char *why)
{
        struct outcome *o = data;

        assert(!o->is_over && *why);
        o->is_over = o->has_failed = true;
        incoming_stop(&o->rig.in);
}

static void on_end(void *data)
{
        struct outcome *o = data;

        assert(!o->is_over);
        o->is_over = true;
}

static const struct incoming_host host = {on_message, on_parsed, on_event, on_failed, on_end};

static void read_body(struct outcome *o, struct exchange_loop *loop, bool has_events,
                      const char *bytes, size_t n, size_t piece)
{
        *o = (struct outcome){};
        rig_init(&o->rig, loop, &host, o);
        incoming_begin(&o->rig.in, &o->rig.exchange, has_events);
        rig_feed(&o->rig, bytes, n, piece, &o->is_over);
        if (!o->is_over)
                incoming_finish(&o->rig.in);
        while (!o->is_over)
                event_base_loop(loop->base, EVLOOP_ONCE);
        if (!o->was_freed)
                incoming_done(&o->rig.in);
}

/* As libcurl cuts them. Returns where the body begins, NULL: the head is refused, or has no end. */
static const char *read_head(struct exchange_head *head, const char *at, const char *end)
{
        while (at < end) {
                const char *feed = memchr(at, '\n', (size_t)(end - at));
                const char *next = feed ? feed + 1 : end;
                int r = exchange_head_line(head, at, (size_t)(next - at));

                assert(strlen(head->content_type) <= EXCHANGE_CONTENT_TYPE_MAX);
                assert(strlen(head->session) <= EXCHANGE_SESSION_MAX);
                assert(strlen(head->challenge) <= EXCHANGE_CHALLENGE_MAX);
                assert(!strchr(head->challenge, '\n'));
                assert(!head->session_is_bad || !head->session[0]);
                if (r != 0)
                        return r < 0 ? NULL : next;
                at = next;
        }
        return NULL;
}

static void expand(struct buffer *to, const char *at, const char *end)
{
        static char pad[PAD];
        unsigned pads = 0;

        memset(pad, 'x', sizeof(pad));
        for (; at < end; at++) {
                bool pads_here = *at == 1 && pads++ < PADS_MAX;
                int r = buffer_append(to, pads_here ? pad : at, pads_here ? PAD : 1);
                assert(r == 0);
        }
}

static bool read_both(struct exchange_loop *loop, bool has_events, const struct buffer *body)
{
        struct outcome whole, single;
        size_t piece = body->length > 2 * PAD ? 4099 : 1;

        read_body(&whole, loop, has_events, buffer_bytes(body), body->length, 64 * 1024);
        read_body(&single, loop, has_events, buffer_bytes(body), body->length, piece);
        assert(whole.messages == single.messages && whole.parsed == single.parsed &&
               whole.events == single.events && whole.hash == single.hash &&
               whole.has_failed == single.has_failed && whole.was_freed == single.was_freed);
        return whole.messages + whole.parsed > 0 && !whole.has_failed && !whole.was_freed;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static struct event_base *base;
        static struct exchange_loop *loop;
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(1 << 20);
        struct exchange_head *head = calloc(1, sizeof(*head));
        const char *from = (const char *)data;

        if (!base) {
                fake_clock_skip_idle(true);
                base = event_base_new();
                assert(base && exchange_loop_new(&loop, base) == 0);
        }
        assert(head);
        const char *at = read_head(head, from, from + n);
        bool has_events = strcmp(head->content_type, "text/event-stream") == 0;
        bool is_read = at && head->status / 100 == 2 &&
                       (has_events || strcmp(head->content_type, "application/json") == 0);
        free(head);
        if (!is_read)
                return false;
        expand(&body, at, from + n);
        return read_both(loop, has_events, &body);
}

FUZZ_TARGET
