/*
 * Requests of a session to cloister-inject. Accepted when each is complete and is sent. The server gets one request with the same method
 * and path, whatever the client has sent: no placeholder is in it, and each value only where its secret allows it.
 */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "supervisor/inject/forward.h"
#include "supervisor/inject/placeholders.h"

enum { HEADER_ONE, QUERY_ONE, FOREIGN, SECRETS, MOST = 8192, HEADERS_MOST = 90 };

static const char settings_text[] =
        "{\"secrets\":[{\"name\":\"A\",\"in\":[\"header\",\"body\"],\"to\":[\"a.example:443\"]},"
        "{\"name\":\"B\",\"in\":[\"query\"],\"to\":[\"a.example:443\"]},"
        "{\"name\":\"C\",\"in\":[\"header\",\"query\",\"body\"],\"to\":[\"b.example:443\"]}]}";
static const char values_text[] =
        "{\"A\":\"zq1 \\\"%&\\u00e9\",\"B\":\"zq2 &=#/?\",\"C\":\"zq3!zq3\"}";
static const char *const texts[2][SECRETS] = {{"ph_AAAAAAAA", "ph_BBBBBBBB", "ph_CCCCCCCC"},
                                              {"ph_DDDDDDDD", "ph_EEEEEEEE", "ph_FFFFFFFF"}};

static struct inject_settings settings;
static struct inject inject = {.settings = &settings};
static struct inject_session sessions[2] = {{.inject = &inject}, {.inject = &inject}};

static void prepare(void)
{
        struct error err = {};

        if (settings.n_secrets > 0)
                return;
        assert(inject_settings_read(&settings, settings_text, values_text, strlen(values_text),
                                    &err) == 0);
        inject.placeholders.settings = &settings;
        for (size_t s = 0; s < ARRAY_SIZE(sessions); s++)
                for (size_t i = 0; i < SECRETS; i++)
                        assert(placeholders_add(&inject.placeholders, &sessions[s].items[i],
                                                &sessions[s], i, texts[s][i]) == 0);
}

static bool has(const void *text, size_t n, const char *needle)
{
        return n > 0 && memmem(text, n, needle, strlen(needle));
}

static void check_credentials(const char *value)
{
        _cleanup_buffer_ struct buffer decoded = BUFFER_INIT(MOST * 2);

        if (strncasecmp(value, "basic ", 6) != 0)
                return;
        value += 6;
        value += strspn(value, " ");
        if (base64_decode(&decoded, value, strlen(value)) < 0)
                return;
        for (size_t s = 0; s < ARRAY_SIZE(sessions); s++)
                for (size_t i = 0; i < SECRETS; i++)
                        assert(!has(buffer_bytes(&decoded), decoded.length, texts[s][i]));
        assert(!has(buffer_bytes(&decoded), decoded.length, settings.secrets[QUERY_ONE].value));
        assert(!has(buffer_bytes(&decoded), decoded.length, settings.secrets[FOREIGN].value));
}

static void check_values(const struct buffer *sent)
{
        const char *text = buffer_bytes(sent);
        size_t line = (size_t)((char *)memmem(text, sent->length, "\r\n", 2) - text);

        for (size_t s = 0; s < ARRAY_SIZE(sessions); s++)
                for (size_t i = 0; i < SECRETS; i++)
                        assert(!has(text, sent->length, texts[s][i]));
        assert(!has(text, line, "zq1"));
        assert(!has(text + line, sent->length - line, "zq2"));
        assert(!has(text, sent->length, "zq3"));
}

/* A second reader: there is no byte behind the request, so that none can be taken for another one. */
static void check_sent(const struct http_reader *got, struct buffer *sent)
{
        static const char *const left_out[] = {"range", "te", "upgrade", "connection",
                                               "transfer-encoding"};
        struct http_reader again;
        struct error err = {};
        const char *name, *value;
        size_t used = 0;

        http_reader_init(&again, FORWARD_MAX);
        again.target_max = MOST * 2;
        while (again.state != HTTP_READER_DONE) {
                ssize_t r = http_reader_feed(&again, buffer_bytes(sent) + used, sent->length - used,
                                             &err);
                assert(r >= 0 && (r > 0 || again.state == HTTP_READER_DONE));
                used += (size_t)r;
        }
        assert(used == sent->length);
        assert(strcmp(http_request_method(&again), http_request_method(got)) == 0);
        assert(strcmp(again.request.path, got->request.path) == 0);
        assert(!again.request.query == !got->request.query);
        assert(strcmp(http_request_header(&again, "host"), "a.example") == 0);
        assert(strcmp(http_request_header(&again, "accept-encoding"), "identity") == 0);
        for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
                assert(!http_request_header(&again, left_out[i]));
        for (size_t i = 0; http_request_each(&again, i, &name, &value); i++)
                check_credentials(value);
        http_reader_done(&again);
}

static size_t count_headers(const struct http_reader *reader)
{
        const char *name, *value;
        size_t n = 0;

        while (http_request_each(reader, n, &name, &value))
                n++;
        return n;
}

/* Returns whether the request was sent. */
static bool forward(const struct http_reader *reader, struct buffer *sent)
{
        struct error err = {};

        if (count_headers(reader) > HEADERS_MOST)
                return false;
        int r = forward_append(&sessions[0], 0, reader, NULL, sent, &err);
        assert(r == 0 || (r == -EACCES && *err.text));
        if (r == 0)
                check_sent(reader, sent);
        return r == 0;
}

/* The request, passed on while it arrives: the body stays as it is, and has no placeholder. Takes the body. */
static void check_streamed(struct http_reader *got)
{
        _cleanup_buffer_ struct buffer sent = BUFFER_INIT(FORWARD_MAX);
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(FORWARD_MAX);
        struct forward_stream stream = {};
        struct http_reader again;
        struct error err = {};
        size_t used = 0;

        assert(buffer_append(&body, buffer_bytes(&got->request.body), got->request.body.length) ==
               0);
        int r = forward_append(&sessions[0], 0, got, &stream, &sent, &err);
        if (r == 0)
                r = forward_more(&sessions[0], 0, got, &stream, &sent, &err);
        assert(r == 0 || (r == -EACCES && *err.text));
        buffer_done(&stream.held);
        if (r < 0)
                return;
        http_reader_init(&again, FORWARD_MAX);
        again.target_max = MOST * 2;
        while (again.state != HTTP_READER_DONE) {
                ssize_t n = http_reader_feed(&again, buffer_bytes(&sent) + used, sent.length - used,
                                             &err);
                assert(n >= 0 && (n > 0 || again.state == HTTP_READER_DONE));
                used += (size_t)n;
        }
        assert(used == sent.length && again.request.body.length == body.length &&
               (body.length == 0 ||
                memcmp(buffer_bytes(&again.request.body), buffer_bytes(&body), body.length) == 0));
        for (size_t s = 0; s < ARRAY_SIZE(sessions); s++)
                for (size_t i = 0; i < SECRETS; i++)
                        assert(!has(buffer_bytes(&body), body.length, texts[s][i]));
        http_reader_done(&again);
}

/* All requests of the connection. */
static bool read_all(const char *bytes, size_t n, size_t piece, struct buffer *all)
{
        struct http_reader reader;
        struct error err = {};
        bool good = true, complete = false;

        http_reader_init(&reader, MOST);
        for (size_t at = 0; good && (at < n || reader.state == HTTP_READER_HEADERS);) {
                ssize_t r = http_reader_feed(&reader, bytes + at, n - at < piece ? n - at : piece,
                                             &err);
                good = r >= 0 && (reader.state != HTTP_READER_HEADERS ||
                                  forward_check(&settings.hosts[0], &reader, &err) == 0);
                at += good ? (size_t)r : 0;
                complete = good && reader.state == HTTP_READER_DONE;
                if (!complete)
                        continue;
                _cleanup_buffer_ struct buffer sent = BUFFER_INIT(FORWARD_MAX);
                good = forward(&reader, &sent);
                if (good)
                        assert(buffer_append(all, buffer_bytes(&sent), sent.length) == 0);
                if (good && !has(bytes, n, "zq"))
                        check_values(&sent);
                check_streamed(&reader);
                http_reader_next(&reader, MOST);
        }
        http_reader_done(&reader);
        return good && complete;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        _cleanup_buffer_ struct buffer whole = BUFFER_INIT(16 * FORWARD_MAX);
        _cleanup_buffer_ struct buffer single = BUFFER_INIT(16 * FORWARD_MAX);

        prepare();
        if (n > MOST)
                return false;
        bool is_whole = read_all((const char *)data, n, n, &whole);
        bool is_single = read_all((const char *)data, n, 1, &single);
        assert(is_whole == is_single && whole.length == single.length &&
               (whole.length == 0 ||
                memcmp(buffer_bytes(&whole), buffer_bytes(&single), whole.length) == 0));
        return is_whole;
}

FUZZ_TARGET
