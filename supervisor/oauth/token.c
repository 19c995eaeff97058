/* The token endpoint. Bodies and headers hold secrets: they are wiped, and no message quotes them. */
#include "supervisor/oauth/token.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "supervisor/oauth/fetch.h"
#include "supervisor/oauth/proof.h"

enum { BODY_MAX = 64 * 1024, HEADER_MAX = 3 * 4 * (OAUTH_ID_MAX + OAUTH_SECRET_MAX) };

static const char form_type[] = "application/x-www-form-urlencoded";

static void wipe(struct buffer *b)
{
        if (b->data)
                explicit_bzero(b->data, b->allocated);
        buffer_done(b);
}
#define _cleanup_secret_ _cleanup_(wipe)

/* "Authorization: Basic …" of percent-encoded id and secret (RFC 6749, section 2.3.1). */
static int add_basic(const struct oauth_client *client, struct buffer *header)
{
        _cleanup_secret_ struct buffer pair = BUFFER_INIT(HEADER_MAX);

        form_encode(&pair, client->id);
        buffer_append_text(&pair, ":");
        form_encode(&pair, client->secret);
        buffer_append_text(header, "Authorization: Basic ");
        base64_append(header, buffer_bytes(&pair), pair.length);
        buffer_append(header, "", 1);
        return pair.error < 0 ? pair.error : header->error;
}

/* RFC 7523, section 2.2. The audience is the issuer, so that no other server can use it. */
static int add_assertion(const struct oauth_record *record, struct buffer *body, struct error *err)
{
        _cleanup_secret_ struct buffer text = BUFFER_INIT(BODY_MAX / 2);

        int r = oauth_assertion_append(&record->client, record->issuer, &text, err);
        if (r >= 0)
                r = buffer_append(&text, "", 1);
        if (r < 0)
                return r;
        form_add(body, 0, "client_assertion_type",
                 "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        form_add(body, 0, "client_assertion", buffer_bytes(&text));
        return body->error;
}

static int authenticate(const struct oauth_record *record, struct buffer *body,
                        struct buffer *header, struct error *err)
{
        const struct oauth_client *client = &record->client;

        if (client->method == OAUTH_BASIC)
                return add_basic(client, header);
        form_add(body, 0, "client_id", client->id);
        if (client->method == OAUTH_PRIVATE_KEY)
                return add_assertion(record, body, err);
        if (client->method == OAUTH_POST)
                form_add(body, 0, "client_secret", client->secret);
        return body->error;
}

static int post(const struct oauth_record *record, const char *url, const char *what,
                struct buffer *body, struct oauth_response *ret, struct error *err)
{
        const struct oauth_reach reach = oauth_reach_of(record->url, record->private);
        _cleanup_secret_ struct buffer header = BUFFER_INIT(2 * HEADER_MAX);

        int r = body->error < 0 ? body->error : authenticate(record, body, &header, err);
        if (r < 0)
                return error_is_set(err) ? error_context(err, "%s", what)
                                         : error_errno(err, -r, "%s", what);
        const struct oauth_request request = {
                .url = url,
                .reach = &reach,
                .what = what,
                .body = buffer_bytes(body),
                .length = body->length,
                .type = form_type,
                .headers = {"Accept: application/json",
                            header.length > 0 ? buffer_bytes(&header) : NULL},
        };
        return oauth_fetch(&request, ret, err);
}

/* Codes after which the same request will never succeed. */
static bool is_final(const char *code)
{
        return strcmp(code, "invalid_grant") == 0 || strcmp(code, "invalid_client") == 0 ||
               strcmp(code, "unauthorized_client") == 0;
}

static int refused(const struct oauth_response *response, struct error *err)
{
        char code[65];

        oauth_parse_error(buffer_bytes(&response->body), response->body.length, code);
        return error_set(err, is_final(code) ? EKEYREJECTED : EIO,
                         "the token endpoint answers %s%s(HTTP status %ld)", code, *code ? " " : "",
                         response->status);
}

/* Takes over new tokens. A refresh token that is not replaced stays valid (RFC 6749, section 6). */
static void take_tokens(struct oauth_record *record, const struct oauth_tokens *tokens)
{
        char refresh[sizeof(tokens->refresh)];

        memcpy(refresh, record->tokens.refresh, sizeof(refresh));
        record->tokens = *tokens;
        if (!*tokens->refresh)
                memcpy(record->tokens.refresh, refresh, sizeof(refresh));
        explicit_bzero(refresh, sizeof(refresh));
        record->obtained = time(NULL);
        record->expires = tokens->seconds > 0 ? record->obtained + tokens->seconds : 0;
}

/* Fills in the body with pairs of name and value, up to a NULL, sends it and takes the tokens. */
static int request_tokens(struct oauth_record *record, const char *const (*pairs)[2],
                          struct error *err)
{
        static const char what[] = "the token endpoint";
        _cleanup_secret_ struct buffer body = BUFFER_INIT(BODY_MAX);
        _cleanup_response_ struct oauth_response response = {};
        struct oauth_tokens tokens;

        form_add_all(&body, 0, pairs);
        int r = post(record, record->token_endpoint, what, &body, &response, err);
        if (r < 0)
                return r;
        if (response.status != 200)
                return refused(&response, err);
        r = oauth_parse_tokens(buffer_bytes(&response.body), response.body.length, &tokens, err);
        if (r < 0)
                return error_context(err, "the token endpoint's answer");
        take_tokens(record, &tokens);
        explicit_bzero(&tokens, sizeof(tokens));
        return 0;
}

int oauth_token_exchange(struct oauth_record *record, const char *code, const char *verifier,
                         const char *redirect_uri, struct error *err)
{
        const char *const pairs[][2] = {
                {"grant_type", "authorization_code"}, {"code", code},
                {"code_verifier", verifier},          {"redirect_uri", redirect_uri},
                {"resource", record->resource},       {NULL},
        };

        *record->tokens.refresh = '\0';
        return request_tokens(record, pairs, err);
}

int oauth_token_renew(struct oauth_record *record, struct error *err)
{
        bool own = record->credentials;
        const char *const pairs[][2] = {
                {"grant_type", own ? "client_credentials" : "refresh_token"},
                {"refresh_token", own ? "" : record->tokens.refresh},
                {"scope", own ? record->scope : ""},
                {"resource", record->resource},
                {NULL},
        };

        return request_tokens(record, pairs, err);
}

static int revoke_one(const struct oauth_record *record, const char *token, const char *hint,
                      struct error *err)
{
        const char *const pairs[][2] = {{"token", token}, {"token_type_hint", hint}, {NULL}};
        _cleanup_secret_ struct buffer body = BUFFER_INIT(BODY_MAX);
        _cleanup_response_ struct oauth_response response = {};

        if (!*token)
                return 0;
        form_add_all(&body, 0, pairs);
        int r = post(record, record->revocation_endpoint, "the revocation endpoint", &body,
                     &response, err);
        if (r >= 0 && response.status != 200)
                r = error_set(err, EIO, "the revocation endpoint answers HTTP status %ld",
                              response.status);
        return r;
}

int oauth_token_revoke(const struct oauth_record *record, struct error *err)
{
        if (!*record->revocation_endpoint)
                return 0;
        /* The refresh token first: most servers revoke what was made from it as well. */
        int r = revoke_one(record, record->tokens.refresh, "refresh_token", err);
        int q = revoke_one(record, record->tokens.access, "access_token", r < 0 ? NULL : err);
        return r < 0 ? r : q;
}
