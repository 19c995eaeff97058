/* HTTP requests to untrusted servers. */
#include "supervisor/oauth/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"

struct transfer {
        const struct oauth_request *request;
        struct oauth_response *response;
        size_t headers; /* bytes */
        bool refused;   /* an address */
        bool too_large;
        bool stopped; /* headers_only: they have arrived */
        CURL *easy;
};

static void cleanup_easy(CURL **easy)
{
        curl_easy_cleanup(*easy);
}
static void cleanup_list(struct curl_slist **list)
{
        curl_slist_free_all(*list);
}

static curl_socket_t on_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct transfer *t = data;

        if (purpose != CURLSOCKTYPE_IPCXN ||
            !oauth_address_allowed(&address->addr, t->request->reach)) {
                t->refused = true;
                return CURL_SOCKET_BAD;
        }
        return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t on_body(char *data, size_t size, size_t n, void *to)
{
        struct transfer *t = to;

        if (buffer_append(&t->response->body, data, size * n) < 0) {
                t->too_large = true;
                return 0;
        }
        return size * n;
}

static bool is_final_status(CURL *easy)
{
        long status = 0;

        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        return status >= 200;
}

static size_t on_header(char *line, size_t size, size_t n, void *to)
{
        static const char name[] = "www-authenticate:";
        struct transfer *t = to;
        struct buffer *challenge = &t->response->challenge;
        size_t length = size * n;

        t->headers += length;
        if (t->headers > OAUTH_HEADERS_MAX) {
                t->too_large = true;
                return 0;
        }
        if (t->request->headers_only && length <= 2 && is_final_status(t->easy)) {
                t->stopped = true;
                return 0;
        }
        /* The headers of an interim response (1xx) do not count. */
        if (length >= 5 && memcmp(line, "HTTP/", 5) == 0)
                buffer_consume(challenge, challenge->length);
        if (length < sizeof(name) - 1 || strncasecmp(line, name, sizeof(name) - 1) != 0)
                return length;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
                length--;
        buffer_append_text(challenge, challenge->length > 0 ? ", " : "");
        buffer_append(challenge, line + sizeof(name) - 1, length - (sizeof(name) - 1));
        if (challenge->error < 0) {
                t->too_large = true;
                return 0;
        }
        return size * n;
}

/* Out of memory, a header is left out. */
static void add(struct curl_slist **list, const char *text)
{
        struct curl_slist *more = curl_slist_append(*list, text);

        *list = more ? more : *list;
}

static struct curl_slist *list_of(const struct oauth_request *request)
{
        struct curl_slist *list = NULL;
        char type[128];

        snprintf(type, sizeof(type), "Content-Type: %s", request->type ? request->type : "");
        if (request->body)
                add(&list, type);
        for (size_t i = 0; i < ARRAY_SIZE(request->headers) && request->headers[i]; i++)
                add(&list, request->headers[i]);
        add(&list, "Expect:"); /* no "Expect: 100-continue" */
        return list;
}

static void set_limits(CURL *easy)
{
        const char *ca = getenv("SSL_CERT_FILE");

        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
        curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
        curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)OAUTH_CONNECT_MS);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)OAUTH_REQUEST_MS);
        curl_easy_setopt(easy, CURLOPT_USERAGENT, "cloister");
#if LIBCURL_VERSION_NUM >= 0x075500
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
        if (ca && *ca)
                curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
}

static const char *advice(CURLcode code)
{
        if (code == CURLE_PEER_FAILED_VERIFICATION)
                return "; SSL_CERT_FILE can name a file with the certificates to trust";
        if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
            code == CURLE_OPERATION_TIMEDOUT)
                return "; check the URL and that this machine is online, then try again";
        return "";
}

static int failed(const struct transfer *t, CURLcode code, struct error *err)
{
        const char *what = t->request->what;

        if (t->refused)
                return error_set(
                        err, EACCES,
                        "%s (%.100s) is at an address of this machine or of a private network; if it belongs there, set \"private\": true in the server's \"oauth\"",
                        what, t->request->url);
        if (t->too_large)
                return error_set(err, EFBIG, "%s (%.100s) answers more than %d KiB", what,
                                 t->request->url, OAUTH_BODY_MAX / 1024);
        if (code == CURLE_OUT_OF_MEMORY)
                return error_errno(err, ENOMEM, "%s", what);
        return error_set(err, code == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT : EIO,
                         "%s (%.100s): %s%s", what, t->request->url, curl_easy_strerror(code),
                         advice(code));
}

static CURLcode perform(CURL *easy, struct transfer *t)
{
        const struct oauth_request *request = t->request;
        _cleanup_(cleanup_list) struct curl_slist *headers = list_of(request);

        set_limits(easy);
        curl_easy_setopt(easy, CURLOPT_URL, request->url);
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, t);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
        if (request->body) {
                curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length);
                curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
        }
        CURLcode code = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &t->response->status);
        return code;
}

int oauth_fetch(const struct oauth_request *request, struct oauth_response *ret, struct error *err)
{
        struct oauth_response response = {.body = BUFFER_INIT(OAUTH_BODY_MAX),
                                          .challenge = BUFFER_INIT(OAUTH_CHALLENGE_MAX)};
        struct transfer t = {.request = request, .response = &response};

        int r = oauth_url_check(request->url, request->reach, request->what, err);
        if (r < 0)
                return r;
        _cleanup_(cleanup_easy) CURL *easy = curl_easy_init();
        if (!easy)
                return error_errno(err, ENOMEM, "%s", request->what);
        t.easy = easy;
        CURLcode code = perform(easy, &t);
        if (code != CURLE_OK && !t.stopped) {
                oauth_response_done(&response);
                return failed(&t, code, err);
        }
        *ret = response;
        return 0;
}

void oauth_response_done(struct oauth_response *response)
{
        if (response->body.data)
                explicit_bzero(response->body.data, response->body.allocated);
        buffer_done(&response->body);
        buffer_done(&response->challenge);
}
