/* cloister-inject: placeholders in requests, values in streams, responses. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/inject-messages.h"
#include "supervisor/inject/authority.h"
#include "supervisor/inject/mask-filter.h"
#include "supervisor/inject/mask.h"
#include "supervisor/inject/placeholders.h"
#include "supervisor/inject/response.h"
#include "supervisor/secrets/placeholder.h"
#include "tests/unit/test.h"

static struct inject_settings settings;
static struct value_mask *mask;
static char placeholders[INJECT_SECRETS_MAX][INJECT_PLACEHOLDER_SIZE] = {"ph_AAAAAAAA",
                                                                         "ph_BBBBBBBB"};

static void read_settings(void)
{
        static const char text[] =
                "{\"secrets\":[{\"name\":\"A\",\"in\":[\"header\",\"body\"],\"to\":[\"a.example:443\",\"b.example:8443\"]},"
                "{\"name\":\"B\",\"in\":[\"query\"],\"to\":[\"a.example:443\"]}]}";
        static const char values[] = "{\"A\":\"aabaabaac\",\"B\":\"va lue&\"}";
        struct error err = {};

        check_eq_int(inject_settings_read(&settings, text, values, strlen(values), &err), 0);
        check_eq_int((int)settings.n_hosts, 2);
        check_eq_int(inject_settings_host(&settings, "b.example", 8443), 1);
        check_eq_int(inject_settings_host(&settings, "b.example", 443), -1);
        check_eq_int(value_mask_new(&mask, &settings, &err), 0);
        struct inject_settings wrong;
        check_eq_int(inject_settings_read(&wrong, text, "{\"A\":\"aabaabaac\"}", 17, &err),
                     -ENOENT);
        check_eq_int(inject_settings_read(&wrong, text, "{\"A\":\"a\\nbaabaa\"}", 17, &err),
                     -EINVAL);
}

/* The text in pieces of this size, as it comes out. */
static const char *masked(const char *text, size_t piece)
{
        static char ret[1 << 16];
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(sizeof(ret));
        struct mask_stream *stream = mask_stream_new(mask, placeholders);

        for (size_t n = strlen(text), k; n > 0; text += k, n -= k) {
                k = n < piece ? n : piece;
                check_eq_int(mask_stream_feed(stream, text, k, &to), 0);
        }
        check_eq_int(mask_stream_finish(stream, &to), 0);
        mask_stream_free(stream);
        snprintf(ret, sizeof(ret), "%.*s", (int)to.length, to.length ? buffer_bytes(&to) : "");
        return ret;
}

static void test_values_in_streams(void)
{
        static const struct {
                const char *text, *expected;
        } cases[] = {
                {"", ""},
                {"aabaabaac", "ph_AAAAAAAA"},
                {"aabaabaabaac.", "aabph_AAAAAAAA."},
                {"aabaabaacaabaabaac", "ph_AAAAAAAAph_AAAAAAAA"},
                {"aabaabaa", "aabaabaa"},
                {"x va lue& va%20lue%26 va+lue%26y", "x ph_BBBBBBBB ph_BBBBBBBB ph_BBBBBBBBy"},
                {"va%20lue", "va%20lue"},
                {"qYWFiYWFiYWFj", "qph_AAAAAAAA"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                for (size_t piece = 1; piece < 40; piece++)
                        check_eq_str(masked(cases[i].text, piece), cases[i].expected);
}

/* Against each text at each place, in texts of few letters, so that many begin. */
static void test_the_filter_skips_no_beginning(void)
{
        static const char *const texts[] = {"abab", "aabaab", "bbbbbbbb", "baab", "abc", "cccccca"};
        struct secret_form forms[ARRAY_SIZE(texts)];
        size_t skipped = 0;

        srand(1);
        for (int round = 0; round < 3000; round++) {
                char text[64];
                size_t n_forms = 1 + (size_t)rand() % ARRAY_SIZE(texts), first = 0;
                size_t n = (size_t)rand() % sizeof(text);
                for (size_t i = 0; i < n_forms; i++) {
                        const char *chosen = texts[(size_t)rand() % ARRAY_SIZE(texts)];
                        forms[i] = (struct secret_form){(char *)chosen, strlen(chosen)};
                }
                for (size_t i = 0; i < n; i++)
                        text[i] = "aaabbcd"[rand() % 7];
                struct mask_filter *filter = mask_filter_new(forms, n_forms);
                size_t clear = mask_filter_skip(filter, text, n);
                for (bool begins = false; first < n && !begins; first += !begins)
                        for (size_t i = 0; i < n_forms && !begins; i++)
                                begins = memcmp(text + first, forms[i].text,
                                                forms[i].n < n - first ? forms[i].n : n - first) ==
                                         0;
                check(clear <= first);
                skipped += clear;
                mask_filter_free(filter);
        }
        check(skipped > 3000);
}

/* A host that sends a prefix of the value again and again must not make the search slow. */
static void test_long_streams(void)
{
        enum { BYTES = 4 << 20 };
        _cleanup_free_ char *text = malloc(BYTES);
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(8 << 20);
        struct mask_stream *stream = mask_stream_new(mask, placeholders);
        uint64_t from = clock_ms();

        for (size_t i = 0; i < BYTES; i++)
                text[i] = "aabaab"[i % 6];
        check_eq_int(mask_stream_feed(stream, text, BYTES, &to), 0);
        check_eq_int(mask_stream_finish(stream, &to), 0);
        check(to.length == BYTES && memcmp(buffer_bytes(&to), text, BYTES) == 0);
        check(clock_ms() - from < 10000);
        mask_stream_free(stream);
}

static const char *replaced(struct placeholder_use *use, const char *text)
{
        static char ret[1024];
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(sizeof(ret));
        struct error err = {};

        int r = placeholders_replace_header(use, "x", text, &to, &err);
        if (r < 0)
                snprintf(ret, sizeof(ret), "%d %s", r, err.text);
        else
                snprintf(ret, sizeof(ret), "%d %.*s", r, (int)to.length, buffer_bytes(&to));
        return ret;
}

static void test_placeholders(void)
{
        static struct placeholders all;
        static struct placeholder items[3];
        int mine = 0, other = 0;
        struct placeholder_use use = {
                .all = &all, .session = &mine, .host = 0, .place = INJECT_HEADERS};

        all.settings = &settings;
        check_eq_int(placeholders_add(&all, &items[0], &mine, 0, "ph_AAAAAAAA"), 0);
        check_eq_int(placeholders_add(&all, &items[1], &mine, 1, "ph_BBBBBBBB"), 0);
        check_eq_int(placeholders_add(&all, &items[2], &other, 0, "ph_CCCCCCCC"), 0);
        check_eq_int(placeholders_add(&all, &(struct placeholder){}, &other, 0, "short"), -EINVAL);
        check_eq_str(replaced(&use, "a ph_AAAAAAAA"), "1 a aabaabaac");
        check_eq_str(replaced(&use, "ph_ph_AAAAAAAAph_AAAAAAAAph_"), "2 ph_aabaabaacaabaabaacph_");
        check_eq_str(replaced(&use, "ph_AAAAAAA"), "0 ph_AAAAAAA");
        check_eq_str(replaced(&use, "ph_CCCCCCCC"), "-13 got the placeholder of another session");
        /* "me:ph_AAAAAAAA", "me:aabaabaac" */
        check_eq_str(replaced(&use, "Basic bWU6cGhfQUFBQUFBQUE="), "1 Basic bWU6YWFiYWFiYWFj");
        check_eq_str(replaced(&use, "Basic bWU6cGg="), "0 Basic bWU6cGg=");
        check(strstr(replaced(&use, "ph_BBBBBBBB"), "in the header") != NULL);
        use.place = INJECT_QUERY;
        use.encoding = ENCODE_PERCENT;
        check_eq_str(replaced(&use, "k=ph_BBBBBBBB&a"), "1 k=va%20lue%26&a");
        use.host = 1;
        check(strstr(replaced(&use, "ph_BBBBBBBB"), "not in \"to\"") != NULL);
        placeholders_remove(&all, &items[2]);
        check_eq_str(replaced(&use, "ph_CCCCCCCC"), "0 ph_CCCCCCCC");
}

static void test_shapes(void)
{
        char a[INJECT_PLACEHOLDER_SIZE], b[INJECT_PLACEHOLDER_SIZE];

        check_eq_int(placeholder_make("ghp_XXXXxxxx0000.~", a, sizeof(a)), 0);
        check_eq_int(placeholder_make("ghp_XXXXxxxx0000.~", b, sizeof(b)), 0);
        check(strcmp(a, b) != 0);
        check_eq_int((int)strspn(a + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 4);
        check_eq_int((int)strspn(a + 8, "abcdefghijklmnopqrstuvwxyz"), 4);
        check_eq_int((int)strspn(a + 12, "0123456789"), 4);
        check(strncmp(a, "ghp_", 4) == 0 && strcmp(a + 16, ".~") == 0);
        check_eq_int(placeholder_make(NULL, a, sizeof(a)), 0);
        check(strncmp(a, "cloister-", 9) == 0 && strlen(a) == 41);
}

/* The bytes that the client gets of these, in pieces of a size; "!" and why if it is refused. */
static const char *response(const char *text, size_t piece, bool is_head)
{
        static char ret[8192];
        _cleanup_buffer_ struct buffer to = BUFFER_INIT(sizeof(ret));
        struct response r;
        int e = 0;

        response_init(&r, mask_stream_new(mask, placeholders), &to, is_head, false);
        for (size_t n = strlen(text), k; n > 0 && e >= 0; text += k, n -= k) {
                k = n < piece ? n : piece;
                e = response_feed(&r, text, k);
        }
        if (e >= 0)
                e = response_end(&r);
        if (e < 0)
                snprintf(ret, sizeof(ret), "!%s", r.why);
        else
                snprintf(ret, sizeof(ret), "%.*s", (int)to.length, buffer_bytes(&to));
        response_done(&r);
        return ret;
}

static void test_responses(void)
{
        static const struct {
                const char *text, *expected;
                bool is_head;
        } cases[] = {
                {"HTTP/1.1 204 Fine\r\nX-A: aabaabaac\r\nAlt-Svc: h3\r\n\r\n",
                 "HTTP/1.1 204 Fine\r\nX-A: ph_AAAAAAAA\r\n\r\n"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true},
                {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n",
                 "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                 "!ended the connection before its response was complete"},
                {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nabc",
                 "!sent a compressed response although none was requested"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                 "!sent a transfer coding other than chunked"},
                {"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                 "!switched to another protocol"},
                {"", "!ended the connection without a response"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                for (size_t piece = 1; piece < 100; piece += 7)
                        check_eq_str(response(cases[i].text, piece, cases[i].is_head),
                                     cases[i].expected);
        check_eq_str(
                response("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n<aabaabaac>", 1000, false),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n<ph_AAAAAAAA>\r\n0\r\n\r\n");
}

/* ---- the authority ---- */

static X509 *certificate_of(struct authority *a, size_t host)
{
        int pair[2];

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        SSL *ssl = authority_accept(a, host, pair[0]);
        check(ssl != NULL);
        X509 *x = X509_dup(SSL_get_certificate(ssl));
        SSL_free(ssl);
        close(pair[0]);
        close(pair[1]);
        return x;
}

static int verify(X509 *trusted, X509 *x)
{
        X509_STORE *store = X509_STORE_new();
        X509_STORE_CTX *context = X509_STORE_CTX_new();

        check_eq_int(X509_STORE_add_cert(store, trusted), 1);
        check_eq_int(X509_STORE_CTX_init(context, store, x, NULL), 1);
        (void)X509_verify_cert(context);
        int code = X509_STORE_CTX_get_error(context);
        X509_STORE_CTX_free(context);
        X509_STORE_free(store);
        X509_free(x);
        return code;
}

/* Who has the key of the authority has no certificate for another host or an address: clients refuse it. */
static void test_the_authority_is_for_its_hosts_only(void)
{
        char pem[INJECT_CERTIFICATE_SIZE];
        static struct inject_settings own;
        static struct authority *a, *other; /* they last as long as the process */
        struct error err = {};
        int none = open("/dev/null", O_RDONLY | O_CLOEXEC), trusted = memfd_create("pem", 0);

        own = settings;
        /* Without trusted certificates there is an authority that cannot connect. */
        check_eq_int(authority_new(&other, &settings, none, &err), -ENOENT);
        check_eq_int(authority_print(other, pem, sizeof(pem)), 0);
        check_eq_int(write(trusted, pem, strlen(pem)), strlen(pem));
        check_eq_int(lseek(trusted, 0, SEEK_SET), 0);
        check_eq_int(authority_new(&a, &own, trusted, &err), 0);
        check_eq_int(authority_print(a, pem, sizeof(pem)), 0);
        BIO *bio = BIO_new_mem_buf(pem, -1);
        X509 *ca = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        snprintf(own.hosts[2].name, sizeof(own.hosts[2].name), "evil.example");
        snprintf(own.hosts[3].name, sizeof(own.hosts[3].name), "a.example,IP:10.0.0.1");
        own.n_hosts = 4;
        check_eq_int(verify(ca, certificate_of(a, 0)), X509_V_OK);
        check_eq_int(verify(ca, certificate_of(a, 1)), X509_V_OK);
        check_eq_int(verify(ca, certificate_of(a, 2)), X509_V_ERR_PERMITTED_VIOLATION);
        check_eq_int(verify(ca, certificate_of(a, 3)), X509_V_ERR_EXCLUDED_VIOLATION);
        X509_free(ca);
        BIO_free(bio);
        close(none);
        close(trusted);
}

int main(void)
{
        run(read_settings);
        run(test_values_in_streams);
        run(test_the_filter_skips_no_beginning);
        run(test_long_streams);
        run(test_placeholders);
        run(test_shapes);
        run(test_responses);
        run(test_the_authority_is_for_its_hosts_only);
        return 0;
}
