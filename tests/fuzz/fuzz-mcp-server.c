/* Lines of a client: accepted when each request has an answer or still runs, without an error. The
 * server sends whole messages for every input. */
#include "supervisor/mcp/state.h"
#include "supervisor/mcp/subscriptions.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/fake-mcp.h"

#include <assert.h>

/* A text to read, of characters with two bytes. */
static void keep_something(void)
{
        const struct resource_uri uri = {
                .kind = RESOURCE_OUTPUT, .session = "default", .cell = 1, .stream = CELL_STDOUT};
        struct capture capture;

        capture_init(&capture);
        for (int i = 0; i < 100; i++)
                assert(capture_append(&capture, "\xc3\xa9", 2) == 0);
        assert(resource_store_keep(&server->owner.store, &uri, &capture) == 0);
}

/* Returns whether none of them is an error. */
static bool check_sent(void)
{
        bool good = true;

        while (sent.length > 0) {
                const char *end = memchr(buffer_bytes(&sent), '\n', sent.length);
                _cleanup_jsonrpc_ struct jsonrpc_message message = {};
                struct error err = {};

                assert(end);
                size_t n = (size_t)(end - buffer_bytes(&sent));
                assert(jsonrpc_parse(buffer_bytes(&sent), n, &message, &err) == 0);
                good = good &&
                       (message.kind == JSONRPC_RESPONSE || message.kind == JSONRPC_NOTIFICATION);
                buffer_consume(&sent, n + 1);
        }
        return good;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *at = (const char *)data, *end = at + n;
        bool good = n > 0;

        open_server();
        keep_something();
        while (at < end) {
                const char *line_end = memchr(at, '\n', (size_t)(end - at));
                if (!line_end)
                        line_end = end;
                mcp_peer_line(peer, &sink, at, (size_t)(line_end - at));
                good = check_sent() && good;
                at = line_end + 1;
        }
        /* The cells end with their sessions; then the streams do. */
        subscriptions_close(server);
        good = check_sent() && good;
        close_server();
        return good;
}

FUZZ_TARGET
