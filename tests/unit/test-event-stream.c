/* Server-sent events, as servers write them. */
#include "rpc/http/event-stream.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/test.h"

static struct event_stream s;

/* The data of the last event, which the next byte may remove. */
static char kept[1024];
static size_t n_kept;

static void keep_data(void)
{
        const char *data = event_stream_data(&s, &n_kept);

        check(n_kept < sizeof(kept));
        memcpy(kept, data, n_kept);
}

/* Feeds all of it; returns the number of events, or negative errno. */
static int feed(const char *bytes, size_t n)
{
        int events = 0;

        for (size_t at = 0, used = 0; at < n; at += used) {
                int r = event_stream_feed(&s, bytes + at, n - at, &used);
                if (r < 0)
                        return r;
                events += r;
                if (r == 1)
                        keep_data();
        }
        return events;
}

static int feed_text(const char *text)
{
        return feed(text, strlen(text));
}

static void check_data(const char *expected)
{
        check_eq_bytes(kept, n_kept, expected);
}

static void test_fields(void)
{
        event_stream_init(&s, 1024);
        check_eq_int(feed_text("event: endpoint\ndata: /m?a=1\n\n"), 1);
        check_eq_str(s.name, "endpoint");
        check_data("/m?a=1");
        check_eq_str(s.last_id, "");
        check_eq_int(s.retry_ms, -1);
        check_eq_int(feed_text("id: 5\nretry: 250\ndata: a\ndata:  b\ndata\n\n"), 1);
        check_eq_str(s.name, "");
        check_data("a\n b\n");
        check_eq_str(s.last_id, "5");
        check_eq_int(s.retry_ms, 250);
        event_stream_done(&s);
}

static void test_id_counts_with_its_event(void)
{
        event_stream_init(&s, 1024);
        check_eq_int(feed_text("id: 1\ndata: x\n\nid: 2\n"), 1);
        check_eq_str(s.last_id, "1");
        check_eq_int(feed_text("\n"), 1);
        check_eq_str(s.last_id, "2");
        check_data("");
        /* An empty one resets it, one with a NUL is ignored. */
        check_eq_int(feed("id: a\0b\n\n", 9), 1);
        check_eq_str(s.last_id, "2");
        check_eq_int(feed_text("id\n\n"), 1);
        check_eq_str(s.last_id, "");
        event_stream_done(&s);
}

static void test_line_ends_and_comments(void)
{
        event_stream_init(&s, 1024);
        check_eq_int(feed_text("\xef\xbb\xbf: hello\r\ndata: a\r\n\r\n"), 1);
        check_data("a");
        check_eq_int(feed_text("data: b\r\r"), 1);
        check_data("b");
        check_eq_int(feed_text(":\n:\n"), 0);
        check_eq_int(feed_text("data: c\n\r\n"), 1);
        check_data("c");
        event_stream_done(&s);
}

static void test_bounds(void)
{
        _cleanup_free_ char *long_text = malloc(200000);

        check(long_text);
        memset(long_text, 'x', 200000);
        event_stream_init(&s, 1024);
        check_eq_int(feed_text("data: "), 0);
        check_eq_int(feed(long_text, 2000), -EMSGSIZE);
        event_stream_done(&s);
        event_stream_init(&s, 1024);
        check_eq_int(feed(long_text, 200000), -EMSGSIZE);
        event_stream_done(&s);
        event_stream_init(&s, 1024);
        check_eq_int(feed_text(":"), 0);
        check_eq_int(feed(long_text, 200000), -EMSGSIZE);
        event_stream_done(&s);
        /* A longer id is ignored, a longer name is cut, a longer time is a day. */
        event_stream_init(&s, 1024);
        check_eq_int(feed_text("id: 1\n\nid: "), 1);
        check_eq_int(feed(long_text, EVENT_ID_MAX + 1), 0);
        check_eq_int(feed_text("\nevent: "), 0);
        check_eq_int(feed(long_text, 100), 0);
        check_eq_int(feed_text("\nretry: 999999999999999999999\n\n"), 1);
        check_eq_str(s.last_id, "1");
        check_eq_int(strlen(s.name), EVENT_NAME_MAX);
        check_eq_int(s.retry_ms, 24 * 3600 * 1000);
        event_stream_done(&s);
}

static void check_event(const char *id, const char *name, unsigned retry_ms, const char *data,
                        const char *expected)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(4096);

        check_eq_int(sse_append_event(&to, id, name, retry_ms, data, strlen(data)), 0);
        check_eq_bytes(buffer_bytes(&to), to.length, expected);
}

static void test_writing(void)
{
        check_event(NULL, NULL, 0, "{}\n", "data: {}\n\n");
        check_event("1-2", "message", 500, "a\nb",
                    "event: message\nid: 1-2\nretry: 500\ndata: a\ndata: b\n\n");
        check_event("1-0", NULL, 0, "", "id: 1-0\ndata: \n\n");
        check_event(NULL, NULL, 0, "a\n\n", "data: a\ndata: \n\n");
}

int main(void)
{
        run(test_fields);
        run(test_id_counts_with_its_event);
        run(test_line_ends_and_comments);
        run(test_bounds);
        run(test_writing);
        return 0;
}
