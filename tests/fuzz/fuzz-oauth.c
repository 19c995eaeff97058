/*
 * Bytes of servers to cloister-oauth. The first byte says which document the rest is: r resource
 * metadata, s authorization server metadata, c registration, t tokens, e error, q query of a redirect,
 * g request of a browser, p pasted line, w WWW-Authenticate, u URL, f token file.
 *
 * What was accepted can be used as it is: texts end within their fields, and hold nothing that could
 * break a header, a command line or a terminal.
 */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

#include "supervisor/oauth/listener.h"
#include "supervisor/oauth/login.h"
#include "supervisor/oauth/store.h"

static void check_printable(const char *text, size_t size)
{
        assert(strlen(text) < size);
        for (; *text; text++)
                assert(*text > ' ' && *text <= '~');
}

static void check_scope(const char *text)
{
        assert(strlen(text) <= CHALLENGE_SCOPE_MAX && !strstr(text, "  "));
        assert(*text != ' ');
        for (; *text; text++)
                assert(*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\');
}

static bool accept_resource(const char *data, size_t n, struct error *err)
{
        static struct oauth_resource resource;

        if (oauth_parse_resource(data, n, &resource, err) < 0)
                return false;
        check_printable(resource.resource, sizeof(resource.resource));
        for (size_t i = 0; i < resource.n_servers; i++)
                check_printable(resource.servers[i], sizeof(resource.servers[i]));
        check_scope(resource.scopes);
        return true;
}

static bool accept_server(const char *data, size_t n, struct error *err)
{
        static struct oauth_server server;

        if (oauth_parse_server(data, n, &server, err) < 0)
                return false;
        assert(*server.issuer && *server.token_endpoint);
        check_printable(server.issuer, sizeof(server.issuer));
        check_printable(server.authorization_endpoint, sizeof(server.authorization_endpoint));
        check_printable(server.token_endpoint, sizeof(server.token_endpoint));
        check_printable(server.registration_endpoint, sizeof(server.registration_endpoint));
        check_printable(server.revocation_endpoint, sizeof(server.revocation_endpoint));
        assert(server.methods > 0 && server.methods < 1u << OAUTH_METHOD_MAX);
        return true;
}

static bool accept_client(const char *data, size_t n, struct error *err)
{
        static struct oauth_client client;

        if (oauth_parse_client(data, n, OAUTH_NONE, &client, err) < 0)
                return false;
        assert(*client.id && (client.method == OAUTH_NONE || *client.secret));
        check_printable(client.id, sizeof(client.id));
        check_printable(client.secret, sizeof(client.secret));
        return true;
}

static bool accept_tokens(const char *data, size_t n, struct error *err)
{
        static struct oauth_tokens tokens;

        if (oauth_parse_tokens(data, n, &tokens, err) < 0)
                return false;
        assert(*tokens.access && tokens.seconds >= 0);
        check_printable(tokens.access, sizeof(tokens.access));
        check_printable(tokens.refresh, sizeof(tokens.refresh));
        check_scope(tokens.scope);
        return true;
}

static bool accept_redirect(const char *query, size_t n, struct error *err)
{
        static struct oauth_redirect redirect;

        if (!query || oauth_parse_redirect(query, n, &redirect, err) < 0)
                return false;
        assert(strlen(redirect.code) < sizeof(redirect.code));
        assert(strlen(redirect.state) < sizeof(redirect.state));
        assert(strlen(redirect.issuer) < sizeof(redirect.issuer));
        assert(strlen(redirect.error) < sizeof(redirect.error));
        for (const char *p = redirect.error; *p; p++)
                assert(*p >= ' ' && *p <= '~');
        return true;
}

static bool accept_challenge(const char *data, size_t n)
{
        struct challenge challenge;
        char word[8 * CHALLENGE_SCOPE_MAX];

        if (challenge_parse(data, n, &challenge) < 0)
                return false;
        check_scope(challenge.scope);
        assert(strlen(oauth_shell_word(challenge.scope, word, sizeof(word))) < sizeof(word));
        assert(strlen(challenge.resource_metadata) <= CHALLENGE_URL_MAX);
        return true;
}

static bool accept_url(const char *url, struct error *err)
{
        const struct oauth_reach reach = {.loopback = true};
        char text[OAUTH_URL_MAX + 1];

        if (oauth_url_check(url, &reach, "it", err) < 0)
                return false;
        check_printable(url, OAUTH_URL_MAX + 1);
        assert(oauth_url_same(url, url));
        if (oauth_url_origin(url, text, sizeof(text)) == 0)
                assert(oauth_url_check(text, &reach, "it", NULL) == 0 && !oauth_url_has_path(text));
        if (oauth_url_well_known(url, "openid-configuration", OAUTH_INSERTED, text, sizeof(text)) ==
            0)
                assert(oauth_url_check(text, &reach, "it", NULL) == 0);
        return true;
}

/* A record that was read and written is read again as the same record. */
static bool accept_record(const char *data, size_t n, struct error *err)
{
        static struct oauth_record record, again;
        _cleanup_buffer_ struct buffer text = BUFFER_INIT(512 * 1024);
        _cleanup_buffer_ struct buffer same = BUFFER_INIT(512 * 1024);

        if (oauth_record_parse(data, n, &record, err) < 0)
                return false;
        assert(oauth_record_append(&record, &text) == 0);
        assert(oauth_record_parse(buffer_bytes(&text), text.length, &again, err) == 0);
        assert(oauth_record_append(&again, &same) == 0);
        assert(same.length == text.length &&
               memcmp(buffer_bytes(&same), buffer_bytes(&text), text.length) == 0);
        return true;
}

static bool accept_request(const char *data, size_t n, struct error *err)
{
        struct http_reader reader;
        bool good = false;

        oauth_listener_expect(&reader);
        if (http_reader_feed(&reader, data, n, err) >= 0 && reader.state == HTTP_READER_HEADERS) {
                const char *query = oauth_request_query(&reader);
                good = query && accept_redirect(query, strlen(query), err);
        }
        http_reader_done(&reader);
        return good;
}

static bool accept_one(char kind, const char *data, size_t n, struct error *err)
{
        size_t length = 0;
        char code[65];

        switch (kind) {
        case 'r':
                return accept_resource(data, n, err);
        case 's':
                return accept_server(data, n, err);
        case 'c':
                return accept_client(data, n, err);
        case 't':
                return accept_tokens(data, n, err);
        case 'e':
                oauth_parse_error(data, n, code);
                return *code != '\0';
        case 'q':
                return accept_redirect(data, n, err);
        case 'g':
                return accept_request(data, n, err);
        case 'p':
                data = oauth_pasted_query(data, n, &length);
                return accept_redirect(data, length, err);
        case 'w':
                return accept_challenge(data, n);
        case 'u':
                return accept_url(data, err);
        case 'f':
                return accept_record(data, n, err);
        default:
                return false;
        }
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct error err = {};

        if (n == 0)
                return false;
        /* A copy of this very size, so that a read beyond it is seen; with a NUL, for 'u'. */
        _cleanup_free_ char *copy = malloc(n);
        assert(copy);
        memcpy(copy, data + 1, n - 1);
        copy[n - 1] = '\0';
        return accept_one((char)data[0], copy, n - 1, &err);
}

FUZZ_TARGET
