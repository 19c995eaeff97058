/* Requests of a connection. Accepted when each of them is complete and the last byte ends one. The
 * result does not depend on the size of the pieces, but which of two reasons for a refusal is seen
 * first may: the parser passes a name on when its piece ends. */
#include "rpc/http/request.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>

enum { BODY_MAX = 1024 };

struct outcome {
        int status; /* of a refusal */
        size_t requests, body;
        bool complete;
};

static struct outcome read_all(const char *bytes, size_t n, size_t piece)
{
        struct outcome outcome = {};
        struct http_reader reader;
        struct error err = {};

        http_reader_init(&reader, BODY_MAX);
        for (size_t at = 0; at < n;) {
                size_t length = n - at < piece ? n - at : piece;
                ssize_t r = http_reader_feed(&reader, bytes + at, length, &err);
                assert(r <= (ssize_t)length);
                if (r < 0) {
                        assert(r == -EBADMSG && reader.status >= 400);
                        outcome.status = reader.status;
                        outcome.complete = false;
                        break;
                }
                at += (size_t)r;
                if (reader.state == HTTP_READER_HEADERS) {
                        assert(reader.request.path[0] == '/');
                        assert(http_request_header(&reader, "host"));
                        assert(http_reader_feed(&reader, "", 0, &err) == 0);
                }
                outcome.complete = reader.state == HTTP_READER_DONE;
                if (!outcome.complete)
                        continue;
                assert(reader.request.body.length <= BODY_MAX);
                outcome.requests++;
                outcome.body += reader.request.body.length;
                http_reader_next(&reader, BODY_MAX);
        }
        http_reader_done(&reader);
        return outcome;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        const char *bytes = (const char *)data;
        struct outcome whole = read_all(bytes, n, n), single = read_all(bytes, n, 1);

        assert((whole.status != 0) == (single.status != 0) && whole.requests == single.requests &&
               whole.body == single.body && whole.complete == single.complete);
        return whole.complete && whole.status == 0;
}

FUZZ_TARGET
