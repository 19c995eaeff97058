/* URLs are taken apart by libcurl's own parser, so that what is checked is what is contacted. */
#include "supervisor/oauth/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/percent.h"
#include "policy/network-rules.h"

static void cleanup_url(CURLU **u)
{
        curl_url_cleanup(*u);
}
static void cleanup_part(char **part)
{
        curl_free(*part);
}
#define _cleanup_url_  _cleanup_(cleanup_url)
#define _cleanup_part_ _cleanup_(cleanup_part)

static CURLU *parse(const char *url)
{
        CURLU *u = curl_url();

        if (u && curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK) {
                curl_url_cleanup(u);
                return NULL;
        }
        return u;
}

static char *part(CURLU *u, CURLUPart which, unsigned int flags)
{
        char *text = NULL;

        return curl_url_get(u, which, &text, flags) == CURLUE_OK ? text : NULL;
}

static bool is_loopback_host(const char *host)
{
        struct in_addr v4;

        if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
                return true;
        return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

struct oauth_reach oauth_reach_of(const char *url, bool private)
{
        _cleanup_url_ CURLU *u = parse(url);
        _cleanup_part_ char *host = u ? part(u, CURLUPART_HOST, 0) : NULL;

        return (struct oauth_reach){host && is_loopback_host(host), private};
}

static bool is_printable(const char *url)
{
        for (; *url; url++)
                if (*url <= ' ' || *url > '~' || strchr("\"<>\\^`{|}", *url))
                        return false;
        return true;
}

/* libcurl decodes %XX in a host. */
static bool is_host(const char *host)
{
        static const char name[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
        size_t n = strlen(host);

        if (*host == '[')
                return strspn(host + 1, "0123456789abcdefABCDEF:.") == n - 2 && host[n - 1] == ']';
        return n > 0 && strspn(host, name) == n;
}

static const char *wrong(CURLU *u, const struct oauth_reach *reach)
{
        _cleanup_part_ char *scheme = part(u, CURLUPART_SCHEME, 0);
        _cleanup_part_ char *host = part(u, CURLUPART_HOST, 0);
        _cleanup_part_ char *user = part(u, CURLUPART_USER, 0);
        _cleanup_part_ char *password = part(u, CURLUPART_PASSWORD, 0);
        _cleanup_part_ char *fragment = part(u, CURLUPART_FRAGMENT, 0);

        if (!scheme || !host || !is_host(host))
                return "is not a URL";
        if (user || password)
                return "contains a user or a password";
        if (fragment)
                return "contains a fragment";
        if (strcmp(scheme, "https") == 0)
                return NULL;
        if (strcmp(scheme, "http") != 0)
                return "must begin with https://";
        if (!is_loopback_host(host))
                return "is not encrypted: https is needed";
        return reach->loopback ? NULL : "names this machine, which only a server on it may do";
}

int oauth_url_check(const char *url, const struct oauth_reach *reach, const char *what,
                    struct error *err)
{
        if (strlen(url) > OAUTH_URL_MAX)
                return error_set(err, EINVAL, "%s is longer than %d bytes", what, OAUTH_URL_MAX);
        if (!is_printable(url))
                return error_set(err, EINVAL, "%s holds characters that a URL cannot have", what);
        _cleanup_url_ CURLU *u = parse(url);
        const char *why = u ? wrong(u, reach) : "is not a URL";
        return why ? error_set(err, EINVAL, "%s (%.100s) %s", what, url, why) : 0;
}

/* --- addresses --- */

bool oauth_address_allowed(const struct sockaddr *address, const struct oauth_reach *reach)
{
        enum address_kind kind = address_kind(address);

        return kind == ADDRESS_PUBLIC ||
               (kind == ADDRESS_LOOPBACK && (reach->loopback || reach->private)) ||
               (kind == ADDRESS_PRIVATE && reach->private);
}

/* --- pieces --- */

static char *origin_of(CURLU *u)
{
        _cleanup_part_ char *scheme = part(u, CURLUPART_SCHEME, 0);
        _cleanup_part_ char *host = part(u, CURLUPART_HOST, 0);
        _cleanup_part_ char *port = part(u, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
        char *text = NULL;

        if (!scheme || !host)
                return NULL;
        for (char *p = host; *p; p++)
                *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        if (asprintf(&text, "%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "") < 0)
                return NULL;
        return text;
}

/* The path without "/" at its end: "" for the root. */
static char *path_of(CURLU *u)
{
        char *path = part(u, CURLUPART_PATH, 0);
        size_t n = path ? strlen(path) : 0;

        while (n > 0 && path[n - 1] == '/')
                path[--n] = '\0';
        return path;
}

/* Origin, path and query of a URL; false: it is not a URL. */
struct pieces {
        char *origin, *path, *query;
};

static void cleanup_pieces(struct pieces *p)
{
        free(p->origin);
        curl_free(p->path);
        curl_free(p->query);
}
#define _cleanup_pieces_ _cleanup_(cleanup_pieces)

static bool take_apart(const char *url, struct pieces *ret)
{
        _cleanup_url_ CURLU *u = parse(url);

        if (!u)
                return false;
        ret->origin = origin_of(u);
        ret->path = path_of(u);
        ret->query = part(u, CURLUPART_QUERY, 0);
        return ret->origin && ret->path;
}

static int put(char *ret, size_t size, const char *a, const char *b, const char *c)
{
        int n = snprintf(ret, size, "%s%s%s", a, b, c);

        return n < 0 || (size_t)n >= size ? -EINVAL : 0;
}

int oauth_url_origin(const char *url, char *ret, size_t size)
{
        _cleanup_pieces_ struct pieces p = {};

        return take_apart(url, &p) ? put(ret, size, p.origin, "", "") : -EINVAL;
}

int oauth_url_well_known(const char *url, const char *suffix, enum oauth_place place, char *ret,
                         size_t size)
{
        _cleanup_pieces_ struct pieces p = {};
        char name[64];

        if (!take_apart(url, &p))
                return -EINVAL;
        snprintf(name, sizeof(name), "/.well-known/%s", suffix);
        if (place == OAUTH_APPENDED)
                return put(ret, size, p.origin, p.path, name);
        return put(ret, size, p.origin, name, place == OAUTH_INSERTED ? p.path : "");
}

bool oauth_url_has_path(const char *url)
{
        _cleanup_pieces_ struct pieces p = {};

        return take_apart(url, &p) && *p.path != '\0';
}

static bool is_named(const char *pair, size_t n, const char *name)
{
        const char *equals = memchr(pair, '=', n);
        int length = 0;
        _cleanup_part_ char *text = curl_easy_unescape(
                NULL, pair, (int)(equals ? (size_t)(equals - pair) : n), &length);

        return text && (size_t)length == strlen(name) && memcmp(text, name, strlen(name)) == 0;
}

const char *oauth_url_parameter(const char *url, const char *const *names)
{
        const char *query = strchr(url, '?');

        while (query) {
                const char *pair = query + 1;
                size_t n = strcspn(pair, "&;");
                for (const char *const *name = names; n > 0 && *name; name++)
                        if (is_named(pair, n, *name))
                                return *name;
                query = pair[n] ? pair + n : NULL;
        }
        return NULL;
}

bool oauth_url_same(const char *a, const char *b)
{
        _cleanup_pieces_ struct pieces x = {}, y = {};

        return take_apart(a, &x) && take_apart(b, &y) && strcmp(x.origin, y.origin) == 0 &&
               strcmp(x.path, y.path) == 0 &&
               strcmp(x.query ? x.query : "", y.query ? y.query : "") == 0;
}

bool oauth_url_below(const char *parent, const char *url)
{
        _cleanup_pieces_ struct pieces x = {}, y = {};

        if (!take_apart(parent, &x) || !take_apart(url, &y) || x.query ||
            strcmp(x.origin, y.origin) != 0)
                return false;
        size_t n = strlen(x.path);
        return strncmp(x.path, y.path, n) == 0 && (y.path[n] == '\0' || y.path[n] == '/');
}

void oauth_url_append_shown(const char *url, struct buffer *to)
{
        percent_append(to, url, "'$!();*", false);
}

void form_encode(struct buffer *to, const char *text)
{
        percent_append(to, text, PERCENT_UNRESERVED, true);
}

void form_add(struct buffer *to, size_t from, const char *name, const char *value)
{
        if (*value == '\0')
                return;
        buffer_append_text(to, to->length > from ? "&" : "");
        form_encode(to, name);
        buffer_append_text(to, "=");
        form_encode(to, value);
}

void form_add_all(struct buffer *to, size_t from, const char *const (*pairs)[2])
{
        for (; **pairs; pairs++)
                form_add(to, from, (*pairs)[0], (*pairs)[1]);
}

const char *oauth_shell_word(const char *name, char *ret, size_t size)
{
        static const char plain[] =
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:/+-";
        size_t n = 0;

        if (*name && *name != '-' && strspn(name, plain) == strlen(name))
                return name;
        ret[n++] = '\'';
        for (; *name && n + 6 < size; name++) {
                if (*name == '\'') {
                        memcpy(ret + n, "'\\''", 4);
                        n += 4;
                } else {
                        ret[n++] = *name;
                }
        }
        ret[n++] = '\'';
        ret[n] = '\0';
        return ret;
}
