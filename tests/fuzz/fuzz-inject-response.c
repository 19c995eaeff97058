/*
 * Responses of a server to cloister-inject. The first byte is the size of the pieces and says whether the request was HEAD (128) or of
 * HTTP/1.0 (64); the second one is m for a stream that is only searched for values. Accepted: a complete response, or any stream.
 *
 * What the client gets is a complete response and nothing behind it, without a value in its head or body: in each form of the
 * value, also where the server has divided it over pieces and chunks. It is the same for each size of the pieces, and what a slow search makes of the server's.
 */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/inject/response.h"
#include "supervisor/secrets/forms.h"

enum {
        SECRETS = 2,
        MOST = 64 * 1024,
        TO_MAX = 16 * 1024 * 1024,
        IS_HEAD = 128,
        IS_OLD = 64,
        FINAL = 200
};

static struct inject_settings settings;
static struct value_mask *mask;
static struct secret_forms forms[SECRETS];
/* They have no byte of a value, so that no value can arise beside one. */
static char placeholders[INJECT_SECRETS_MAX][INJECT_PLACEHOLDER_SIZE] = {"<@>", "<##########>"};

static void prepare(void)
{
        static const char text[] =
                "{\"secrets\":[{\"name\":\"A\",\"in\":[\"header\"],\"to\":[\"a.example:443\"]},"
                "{\"name\":\"B\",\"in\":[\"header\"],\"to\":[\"a.example:443\"]}]}";
        static const char values[] = "{\"A\":\"aabaabaac\",\"B\":\"va lue&\\u00e9\\\"\"}";
        struct error err = {};

        if (mask)
                return;
        assert(inject_settings_read(&settings, text, values, strlen(values), &err) == 0);
        assert(value_mask_new(&mask, &settings, &err) == 0);
        for (size_t i = 0; i < SECRETS; i++)
                assert(secret_forms_make(&forms[i], settings.secrets[i].value,
                                         settings.secrets[i].n_value) == 0);
}

/* The longest form that begins here, or NULL. */
static const struct secret_form *form_at(const char *at, size_t n, size_t *secret)
{
        const struct secret_form *best = NULL;

        for (size_t i = 0; i < SECRETS; i++)
                for (size_t k = 0; k < forms[i].n; k++) {
                        const struct secret_form *form = &forms[i].items[k];
                        if (form->n > n || memcmp(at, form->text, form->n) != 0 ||
                            (best && best->n >= form->n))
                                continue;
                        best = form;
                        *secret = i;
                }
        return best;
}

static void check_absent(const struct buffer *text)
{
        size_t secret;

        for (size_t i = 0; i < text->length; i++)
                assert(!form_at(buffer_bytes(text) + i, text->length - i, &secret));
}

static void mask_slowly(const char *data, size_t n, struct buffer *to)
{
        for (size_t i = 0; i < n;) {
                size_t secret = 0;
                const struct secret_form *form = form_at(data + i, n - i, &secret);
                if (form)
                        assert(buffer_append_text(to, placeholders[secret]) == 0);
                else
                        assert(buffer_append(to, data + i, 1) == 0);
                i += form ? form->n : 1;
        }
}

static void check_equal(const struct buffer *a, const struct buffer *b)
{
        assert(a->length == b->length &&
               (a->length == 0 || memcmp(buffer_bytes(a), buffer_bytes(b), a->length) == 0));
}

static bool check_stream(const char *data, size_t n, size_t piece)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(TO_MAX), slow = BUFFER_INIT(TO_MAX);
        struct mask_stream *stream = mask_stream_new(mask, placeholders);

        mask_slowly(data, n, &slow);
        for (size_t k; n > 0; data += k, n -= k) {
                k = n < piece ? n : piece;
                assert(mask_stream_feed(stream, data, k, &to) == 0);
        }
        assert(mask_stream_finish(stream, &to) == 0);
        mask_stream_free(stream);
        check_equal(&to, &slow);
        check_absent(&to);
        return true;
}

/* ---- responses ---- */

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
        return buffer_append(parser->data, at, n);
}

static int on_end(llhttp_t *parser)
{
        return llhttp_get_status_code(parser) < FINAL ? HPE_OK : HPE_PAUSED;
}

static int on_head(llhttp_t *parser)
{
        return parser->method == HTTP_HEAD; /* set below: there is no body */
}

/* The body of the first response that is not interim. Returns how many bytes are behind it. */
static size_t read_body(const char *text, size_t n, bool is_head, struct buffer *body)
{
        static const llhttp_settings_t reading = {
                .on_body = on_body, .on_headers_complete = on_head, .on_message_complete = on_end};
        llhttp_t parser;

        llhttp_init(&parser, HTTP_RESPONSE, &reading);
        parser.data = body;
        parser.method = is_head ? HTTP_HEAD : HTTP_GET;
        llhttp_errno_t e = llhttp_execute(&parser, text, n);
        if (e == HPE_PAUSED)
                return (size_t)(text + n - llhttp_get_error_pos(&parser));
        if (e == HPE_OK)
                e = llhttp_finish(&parser);
        assert(e == HPE_OK || e == HPE_PAUSED);
        return 0;
}

/* The head and the body that the client has. */
static bool respond(const char *data, size_t n, size_t piece, unsigned flags, struct buffer *head,
                    struct buffer *body)
{
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(TO_MAX);
        struct response r;
        int e = 0;

        response_init(&r, mask_stream_new(mask, placeholders), &to, flags & IS_HEAD,
                      flags & IS_OLD);
        for (size_t k; n > 0 && e >= 0 && !r.is_done; data += k, n -= k) {
                k = n < piece ? n : piece;
                e = response_feed(&r, data, k);
                if (e >= 0)
                        e = response_flush(&r);
        }
        if (e >= 0)
                e = response_end(&r);
        assert(e >= 0 || r.why);
        bool is_complete = e >= 0;
        response_done(&r);
        if (!is_complete)
                return false;
        const char *end = memmem(buffer_bytes(&to), to.length, "\r\n\r\n", 4);
        assert(end);
        assert(buffer_append(head, buffer_bytes(&to), (size_t)(end - buffer_bytes(&to))) == 0);
        check_absent(head);
        assert(read_body(buffer_bytes(&to), to.length, flags & IS_HEAD, body) == 0);
        check_absent(body);
        return true;
}

static bool check_response(const char *data, size_t n, size_t piece, unsigned flags)
{
        _cleanup_buffer_ struct buffer head = BUFFER_INIT(TO_MAX), body = BUFFER_INIT(TO_MAX);
        _cleanup_buffer_ struct buffer head_2 = BUFFER_INIT(TO_MAX), body_2 = BUFFER_INIT(TO_MAX);

        bool is_good = respond(data, n, piece, flags, &head, &body);
        bool is_single = respond(data, n, 1, flags, &head_2, &body_2);
        if (is_good) {
                _cleanup_buffer_ struct buffer sent = BUFFER_INIT(TO_MAX);
                _cleanup_buffer_ struct buffer slow = BUFFER_INIT(TO_MAX);
                (void)read_body(data, n, flags & IS_HEAD, &sent);
                mask_slowly(buffer_bytes(&sent), sent.length, &slow);
                check_equal(&body, &slow);
        }
        /* Bytes behind a response are noticed in the same piece. */
        if (is_good && is_single) {
                check_equal(&head, &head_2);
                check_equal(&body, &body_2);
        }
        assert(!is_good || is_single);
        return is_good;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        prepare();
        if (n < 2 || n > MOST)
                return false;
        size_t piece = 1 + (data[0] & 63);
        const char *rest = (const char *)data + 1;
        return data[1] == 'm' ? check_stream(rest + 1, n - 2, piece * piece)
                              : check_response(rest, n - 1, piece * piece, data[0]);
}

FUZZ_TARGET
