/* Server-sent events. Accepted when the bytes end with an event and one of them has data. The events do
 * not depend on the size of the pieces. */
#include "rpc/http/event-stream.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>

enum { DATA_MAX = 4096 };

struct outcome {
        int r;
        size_t events, data, ids;
        int64_t retry_ms;
        uint64_t hash; /* of all events */
        bool is_over;
};

static void add(struct outcome *o, const char *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                o->hash = (o->hash ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
        o->hash = (o->hash ^ 0x100) * 0x100000001b3ull;
}

static void take(struct outcome *o, const struct event_stream *s)
{
        size_t n;
        const char *data = event_stream_data(s, &n);

        assert(n <= DATA_MAX && strlen(s->name) <= EVENT_NAME_MAX);
        assert(strlen(s->last_id) <= EVENT_ID_MAX && !strpbrk(s->last_id, "\r\n"));
        assert(s->retry_ms >= -1);
        o->events++;
        o->data += n;
        o->ids += s->last_id[0] != '\0';
        add(o, s->name, strlen(s->name));
        add(o, s->last_id, strlen(s->last_id));
        add(o, data, n);
}

static struct outcome read_all(const char *bytes, size_t n, size_t piece)
{
        struct outcome o = {};
        struct event_stream s;

        event_stream_init(&s, DATA_MAX);
        for (size_t at = 0; at < n && o.r >= 0;) {
                size_t length = n - at < piece ? n - at : piece, used = 0;
                o.r = event_stream_feed(&s, bytes + at, length, &used);
                if (o.r < 0) {
                        o.is_over = false;
                        break;
                }
                assert(used > 0 && used <= length && (o.r == 1 || used == length));
                at += used;
                /* The line feed of the last \r\n comes after the event. */
                bool is_rest = o.is_over && used == 1 && at > 1 && bytes[at - 1] == '\n' &&
                               bytes[at - 2] == '\r';
                o.is_over = o.r == 1 || is_rest;
                if (o.r == 1)
                        take(&o, &s);
        }
        assert(o.r >= 0 || o.r == -EMSGSIZE);
        o.retry_ms = s.retry_ms;
        event_stream_done(&s);
        return o;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *bytes = (const char *)data;
        struct outcome whole = read_all(bytes, n, n), single = read_all(bytes, n, 1);

        assert((whole.r < 0) == (single.r < 0) && whole.events == single.events &&
               whole.data == single.data && whole.ids == single.ids && whole.hash == single.hash &&
               whole.is_over == single.is_over && whole.retry_ms == single.retry_ms);
        return whole.is_over && whole.data > 0 && whole.r >= 0;
}

FUZZ_TARGET
