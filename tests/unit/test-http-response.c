/* Heads of responses, and events. */
#include "rpc/http/response.h"

#include "tests/unit/test.h"

static void check_event(const char *id, const char *name, unsigned retry_ms, const char *data,
                        const char *expected)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(4096);

        check_eq_int(sse_append_event(&to, id, name, retry_ms, data, strlen(data)), 0);
        check_eq_bytes(buffer_bytes(&to), to.length, expected);
}

static void test_events(void)
{
        check_event(NULL, NULL, 0, "{}\n", "data: {}\n\n");
        check_event("1-2", "message", 500, "a\nb",
                    "event: message\nid: 1-2\nretry: 500\ndata: a\ndata: b\n\n");
        check_event("1-0", NULL, 0, "", "id: 1-0\ndata: \n\n");
        check_event(NULL, NULL, 0, "a\n\n", "data: a\ndata: \n\n");
}

static void test_head(void)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(4096);

        check_eq_int(http_append_status(&to, 405), 0);
        check_eq_bytes(buffer_bytes(&to), to.length, "HTTP/1.1 405 Method Not Allowed\r\n");
}

int main(void)
{
        run(test_events);
        run(test_head);
        return 0;
}
