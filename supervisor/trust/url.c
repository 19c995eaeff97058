/* URLs of calls. */
#include "supervisor/trust/url.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { URL_MAX = 8192 };

static bool has_doubtful_bytes(const char *url, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)url[i] <= ' ' || (unsigned char)url[i] >= 0x7f || url[i] == '\\')
                        return true;
        return n == 0 || n > URL_MAX;
}

/* Each part is of libcurl: curl_free(). */
static char *part_of(CURLU *url, CURLUPart part)
{
        char *text = NULL;

        return curl_url_get(url, part, &text, part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0) ==
                               CURLUE_OK
                       ? text
                       : NULL;
}

static bool read_parts(CURLU *url, struct rules_url *ret)
{
        char *user = part_of(url, CURLUPART_USER), *scheme = part_of(url, CURLUPART_SCHEME);
        char *host = part_of(url, CURLUPART_HOST), *port = part_of(url, CURLUPART_PORT);
        char *password = part_of(url, CURLUPART_PASSWORD);
        bool is_good = !user && !password && scheme && host && port &&
                       (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
                       strlen(host) < sizeof(ret->host);

        if (is_good) {
                *ret = (struct rules_url){.port = (uint16_t)atoi(port)};
                memcpy(ret->host, host, strlen(host) + 1);
        }
        curl_free(user);
        curl_free(password);
        curl_free(scheme);
        curl_free(host);
        curl_free(port);
        return is_good;
}

bool trust_read_url(const char *text, size_t n, struct rules_url *ret)
{
        _cleanup_free_ char *copy = has_doubtful_bytes(text, n) ? NULL : strndup(text, n);
        CURLU *url = copy ? curl_url() : NULL;

        /* libcurl also takes "http:/host" and "http:///host", which others read in other ways. */
        const char *slashes = copy ? strstr(copy, "://") : NULL;
        bool is_good = url && slashes && slashes[3] != '/' &&
                       curl_url_set(url, CURLUPART_URL, copy, 0) == CURLUE_OK &&
                       read_parts(url, ret);
        curl_url_cleanup(url);
        return is_good;
}
