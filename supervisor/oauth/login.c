/*
 * `cloister login`: discovery, client, browser, tokens. `cloister logout`: revokes the tokens where the server offers that,
 * and removes the file.
 *
 * What the authorization server's metadata said before the browser was sent there is kept in memory
 * until the browser is back: the issuer (RFC 9207), the verifier (RFC 7636) and the state belong to one
 * request.
 */
#include "supervisor/oauth/login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json-out.h"
#include "base/printable.h"
#include "supervisor/oauth/fetch.h"
#include "supervisor/oauth/listener.h"
#include "supervisor/oauth/proof.h"
#include "supervisor/oauth/token.h"
#include "supervisor/options/options.h"

struct login {
        const struct oauth_target *target;
        const struct options *options;
        struct oauth_store store;
        struct oauth_discovery found;
        struct oauth_record before, record;
        bool had_before;
        char state[PKCE_LENGTH + 1], verifier[PKCE_LENGTH + 1], challenge[PKCE_LENGTH + 1];
        struct oauth_redirect redirect;
};

static void cleanup_login(struct login **login)
{
        if (!*login)
                return;
        oauth_store_close(&(*login)->store);
        explicit_bzero(*login, sizeof(**login));
        free(*login);
}

int oauth_authorization_url(const struct oauth_record *record, const char *endpoint,
                            const char *redirect_uri, const char *state, const char *challenge,
                            struct buffer *to)
{
        const char *const parameters[][2] = {
                {"response_type", "code"},
                {"client_id", record->client.id},
                {"redirect_uri", redirect_uri},
                {"scope", record->scope},
                {"state", state},
                {"code_challenge", challenge},
                {"code_challenge_method", "S256"},
                {"resource", record->resource},
                {NULL},
        };

        oauth_url_append_shown(endpoint, to);
        buffer_append_text(to, strchr(endpoint, '?') ? "&" : "?");
        form_add_all(to, to->length, parameters);
        return to->error;
}

/* Chooses the method to request: a public client needs no secret that could be lost. */
static enum oauth_method preferred(const struct oauth_server *server)
{
        for (int i = 0; i < OAUTH_PRIVATE_KEY; i++)
                if (server->methods & 1u << i)
                        return (enum oauth_method)i;
        return OAUTH_NONE;
}

static int describe(const struct oauth_discovery *found, const char *redirect_uri,
                    enum oauth_method method, struct buffer *to)
{
        struct json_out out = {.to = to};

        json_out_begin(&out, NULL, '{');
        json_out_text(&out, "client_name", "Cloister");
        json_out_text(&out, "application_type", "native");
        json_out_begin(&out, "redirect_uris", '[');
        json_out_text(&out, NULL, redirect_uri);
        json_out_end(&out, ']');
        json_out_begin(&out, "grant_types", '[');
        json_out_text(&out, NULL, "authorization_code");
        json_out_text(&out, NULL, "refresh_token");
        json_out_end(&out, ']');
        json_out_begin(&out, "response_types", '[');
        json_out_text(&out, NULL, "code");
        json_out_end(&out, ']');
        json_out_text(&out, "token_endpoint_auth_method", oauth_method_name(method));
        if (*found->scope)
                json_out_text(&out, "scope", found->scope);
        json_out_end(&out, '}');
        return out.error;
}

static int register_client(const struct oauth_target *target, const struct oauth_discovery *found,
                           const char *redirect_uri, struct oauth_client *ret, struct error *err)
{
        static const char what[] = "the registration endpoint";
        _cleanup_buffer_ struct buffer body = BUFFER_INIT(16 * 1024);
        _cleanup_response_ struct oauth_response response = {};
        enum oauth_method method = preferred(&found->server);
        char code[65];

        int r = describe(found, redirect_uri, method, &body);
        if (r < 0)
                return error_errno(err, -r, "%s", what);
        const struct oauth_request request = {
                .url = found->server.registration_endpoint,
                .reach = &target->reach,
                .what = what,
                .body = buffer_bytes(&body),
                .length = body.length,
                .type = "application/json",
                .headers = {"Accept: application/json"},
        };
        r = oauth_fetch(&request, &response, err);
        if (r < 0)
                return r;
        if (response.status != 201 && response.status != 200 && found->assumed)
                return error_set(
                        err, EACCES,
                        "the server (HTTP status %d) names no authorization server, and is not an authorization server itself (%s answers HTTP status %ld): if it takes a token that you have, set \"token\" or \"headers\" in its entry",
                        found->assumed, what, response.status);
        if (response.status != 201 && response.status != 200) {
                oauth_parse_error(buffer_bytes(&response.body), response.body.length, code);
                return error_set(
                        err, EACCES,
                        "%s answers %s%s(HTTP status %ld); register a client by hand with the redirect URI %s, and set client_id, issuer and redirect_port",
                        what, code, *code ? " " : "", response.status, redirect_uri);
        }
        r = oauth_parse_client(buffer_bytes(&response.body), response.body.length, method, ret,
                               err);
        return r < 0 ? error_context(err, "%s's answer", what) : 0;
}

/* The client of the config. Its secret goes to the issuer that the config names only; the config's
 * reader requires one. */
static int configured(const struct oauth_target *target, const struct oauth_discovery *found,
                      const struct oauth_record *before, struct oauth_client *ret,
                      struct error *err)
{
        const char *id = target->config->client_id;

        if (strlen(id) > OAUTH_ID_MAX)
                return error_set(err, EINVAL, "client_id is longer than %d bytes", OAUTH_ID_MAX);
        if (!target->config->issuer && before && strcmp(before->client.id, id) == 0 &&
            strcmp(before->issuer, found->server.issuer) != 0)
                return error_set(
                        err, EACCES,
                        "the server's authorization server is %.100s now, and client_id is of %.100s; if that is right, set \"issuer\" in \"oauth\"",
                        found->server.issuer, before->issuer);
        snprintf(ret->id, sizeof(ret->id), "%s", id);
        memcpy(ret->secret, target->secret, sizeof(ret->secret));
        memcpy(ret->key, target->key, sizeof(ret->key));
        if (*ret->key) {
                snprintf(ret->key_id, sizeof(ret->key_id), "%s",
                         target->config->key_id ? target->config->key_id : "");
                ret->method = OAUTH_PRIVATE_KEY;
                return found->server.methods & 1u << OAUTH_PRIVATE_KEY
                               ? 0
                               : error_set(err, ENOTSUP,
                                           "the authorization server takes no private_key_jwt");
        }
        ret->method = OAUTH_NONE;
        if (*ret->secret == '\0')
                return 0;
        ret->method = found->server.methods & 1u << OAUTH_BASIC ? OAUTH_BASIC : OAUTH_POST;
        if (!(found->server.methods & 1u << ret->method))
                return error_set(err, ENOTSUP, "the authorization server takes no client_secret");
        return 0;
}

/*
 * Which client Cloister is at an authorization server: the config's, one described by a document (CIMD), one that was
 * registered before, or a new registration (RFC 7591). before: the last login, or NULL. *registered: it was registered
 * dynamically. A client with another port than `port` is not used again.
 */
static int choose_client(const struct oauth_target *target, const struct oauth_discovery *found,
                         const struct oauth_record *before, uint16_t port, const char *redirect_uri,
                         struct oauth_client *ret, bool *registered, struct error *err)
{
        const struct config_oauth *config = target->config;
        const struct oauth_server *server = &found->server;

        *registered = false;
        *ret = (struct oauth_client){.port = port};
        if (config->client_id)
                return configured(target, found, before, ret, err);
        if (config->client_metadata_url && server->takes_documents) {
                snprintf(ret->id, sizeof(ret->id), "%s", config->client_metadata_url);
                return 0;
        }
        *registered = true;
        /* Credentials belong to the issuer that gave them. */
        if (before && before->registered && before->client.port == port &&
            strcmp(before->issuer, server->issuer) == 0) {
                *ret = before->client;
                return 0;
        }
        if (!*server->registration_endpoint)
                return error_set(
                        err, ENOTSUP,
                        "the authorization server (%.100s) registers no clients by itself: register one there with the redirect URI http://127.0.0.1:PORT/callback, and set client_id, issuer and redirect_port in the server's \"oauth\"",
                        server->issuer);
        if (server->methods == 1u << OAUTH_PRIVATE_KEY)
                return error_set(
                        err, ENOTSUP,
                        "the authorization server (%.100s) takes clients with a private key only: register one there, and set client_id, issuer and private_key_file in the server's \"oauth\"",
                        server->issuer);
        int r = register_client(target, found, redirect_uri, ret, err);
        ret->port = port;
        return r;
}

/* The port of the config, or the one that the client was registered with, if it is free. */
static int open_listener(const struct login *l, struct oauth_listener *listener, struct error *err)
{
        uint16_t configured = l->target->config->redirect_port;

        if (configured == 0 && l->had_before && l->before.registered && l->before.client.port > 0 &&
            oauth_listener_open(listener, l->before.client.port, NULL) >= 0)
                return 0;
        return oauth_listener_open(listener, configured, err);
}

/* Scopes that were granted before stay wanted, or a login for one operation would lose those of
 * others. */
static int collect_scopes(struct login *l, struct error *err)
{
        struct oauth_record *record = &l->record;
        int r = 0;

        if (l->had_before && strcmp(l->before.issuer, record->issuer) == 0)
                r = scope_add(record->scope, sizeof(record->scope), l->before.scope);
        if (r >= 0)
                r = scope_add(record->scope, sizeof(record->scope), l->found.scope);
        if (r >= 0 && l->options->scope)
                r = scope_add(record->scope, sizeof(record->scope), l->options->scope);
        if (r == -EINVAL)
                return error_set(err, EINVAL, "--scope holds characters that a scope cannot have");
        return r < 0 ? error_set(err, EMSGSIZE, "there are more scopes than fit into %d bytes",
                                 CHALLENGE_SCOPE_MAX)
                     : 0;
}

static int fill_record(struct login *l, const struct oauth_listener *listener, struct error *err)
{
        const struct oauth_target *target = l->target;
        const struct oauth_server *server = &l->found.server;
        struct oauth_record *record = &l->record;

        *record = (struct oauth_record){.private = target->reach.private,
                                        .credentials = target->config->client_credentials};
        snprintf(record->name, sizeof(record->name), "%s", target->name);
        snprintf(record->url, sizeof(record->url), "%s", target->url);
        memcpy(record->resource, l->found.resource, sizeof(record->resource));
        memcpy(record->issuer, server->issuer, sizeof(record->issuer));
        memcpy(record->token_endpoint, server->token_endpoint, sizeof(record->token_endpoint));
        memcpy(record->revocation_endpoint, server->revocation_endpoint,
               sizeof(record->revocation_endpoint));
        int r = collect_scopes(l, err);
        if (r < 0)
                return r;
        return choose_client(target, &l->found, l->had_before ? &l->before : NULL, listener->port,
                             listener->uri, &record->client, &record->registered, err);
}

/* A hostile authorization server can send the browser to an honest one, and have the honest one's code
 * brought to itself (RFC 9207, section 1). Where that one does not name itself in its answer, only the
 * user can see it. */
static void show_parties(const struct login *l)
{
        const struct oauth_server *server = &l->found.server;
        char page[OAUTH_URL_MAX + 1], tokens[OAUTH_URL_MAX + 1];

        if (*l->record.scope)
                printf("Permissions that it asks for: %s\n\n", l->record.scope);
        if (oauth_url_origin(server->authorization_endpoint, page, sizeof(page)) >= 0 &&
            oauth_url_origin(server->token_endpoint, tokens, sizeof(tokens)) >= 0 &&
            strcmp(page, tokens) != 0)
                printf("The page is of %s, but your answer goes to %s: log in only if you expect both names.\n\n",
                       page, tokens);
}

static int show_step(struct login *l, const struct oauth_listener *listener, struct error *err)
{
        _cleanup_buffer_ struct buffer url = BUFFER_INIT(64 * 1024);

        int r = oauth_authorization_url(&l->record, l->found.server.authorization_endpoint,
                                        listener->uri, l->state, l->challenge, &url);
        if (r < 0)
                return error_errno(err, -r, "the authorization URL");
        show_parties(l);
        fputs("To log in to ", stdout);
        printable_print(stdout, l->target->name);
        printf(", open this URL in a browser:\n\n  %.*s\n\n", (int)url.length, buffer_bytes(&url));
        if (l->options->no_browser)
                puts("When the browser has been sent to a page at 127.0.0.1, paste that page's URL here.");
        else
                puts("Waiting for the browser to return.");
        fflush(stdout);
        return 0;
}

/* RFC 9207, section 2.4, before anything of the answer is used or shown. */
static int check_redirect(const struct login *l, struct error *err)
{
        const struct oauth_redirect *redirect = &l->redirect;
        const struct oauth_server *server = &l->found.server;

        if (redirect->has_issuer && strcmp(redirect->issuer, server->issuer) != 0)
                return error_set(
                        err, EACCES,
                        "the answer comes from another authorization server than the request went to; it was not used");
        if (!redirect->has_issuer && server->names_issuer)
                return error_set(
                        err, EACCES,
                        "the answer does not name its issuer, which this authorization server always does; it was not used");
        if (*redirect->error)
                return error_set(
                        err, EACCES, "the authorization server refused: %s%s; nothing was changed",
                        redirect->error,
                        strcmp(redirect->error, "access_denied") == 0
                                ? " (cancelled in the browser, or not allowed for that account)"
                                : "");
        if (!*redirect->code)
                return error_set(err, EBADMSG, "the answer has no code");
        return 0;
}

static int run_browser_step(struct login *l, struct oauth_listener *listener, struct error *err)
{
        bool input = l->options->no_browser || isatty(STDIN_FILENO) == 1;

        int r = pkce_random(l->state, err);
        if (r >= 0)
                r = pkce_random(l->verifier, err);
        if (r >= 0)
                r = pkce_challenge(l->verifier, l->challenge, err);
        if (r >= 0)
                r = show_step(l, listener, err);
        if (r >= 0)
                r = oauth_listener_wait(listener, input ? STDIN_FILENO : -1, l->options->no_browser,
                                        l->state, &l->redirect, err);
        return r < 0 ? r : check_redirect(l, err);
}

static void show_result(const struct login *l)
{
        const struct oauth_record *record = &l->record;

        fputs("Logged in to ", stdout);
        printable_print(stdout, l->target->name);
        if (*record->tokens.refresh || record->credentials)
                puts("; the login is renewed by itself.");
        else if (record->expires > 0)
                printf(" for %lld minutes.\n",
                       (long long)(record->expires - record->obtained + 59) / 60);
        else
                puts(".");
}

/* An authorization server that has deleted the client's registration returns invalid_client here. */
static int explain(const struct login *l, const struct error *why, int r, struct error *err)
{
        char word[2 * OAUTH_NAME_MAX];
        bool person = !l->record.credentials;

        if (r == -EKEYREJECTED && person && l->record.registered && l->had_before)
                return error_set(
                        err, EKEYREJECTED,
                        "%s; 'cloister logout %s' forgets the registration of earlier logins, then log in again",
                        why->text, oauth_shell_word(l->target->name, word, sizeof(word)));
        if (r == -EKEYREJECTED && (!person || l->target->config->client_id))
                return error_set(
                        err, EKEYREJECTED,
                        "%s; check client_id and the secret or key in the server's \"oauth\"",
                        why->text);
        *err = *why;
        return r;
}

/* Gets the tokens. A client with credentials of its own needs no browser. */
static int get_tokens(struct login *l, struct oauth_listener *listener, struct error *err)
{
        struct error why = {};
        int r = l->record.credentials ? 0 : run_browser_step(l, listener, err);

        if (r < 0)
                return r;
        r = l->record.credentials ? oauth_token_renew(&l->record, &why)
                                  : oauth_token_exchange(&l->record, l->redirect.code, l->verifier,
                                                         listener->uri, &why);
        return r < 0 ? explain(l, &why, r, err) : r;
}

static int run(struct login *l, struct oauth_listener *listener, struct error *err)
{
        int r = fill_record(l, listener, err);

        if (r >= 0)
                r = get_tokens(l, listener, err);
        if (r >= 0)
                r = oauth_store_lock(&l->store, err);
        if (r >= 0)
                r = oauth_store_write(&l->store, &l->record, err);
        if (r >= 0)
                show_result(l);
        return r;
}

int oauth_login(const struct oauth_target *target, const struct options *options, struct error *err)
{
        _cleanup_(cleanup_login) struct login *l = calloc(1, sizeof(*l));
        struct oauth_listener listener = {.fd = -1};

        if (!l)
                return error_errno(err, ENOMEM, "login");
        l->target = target;
        l->options = options;
        l->store = (struct oauth_store){.directory = -1, .lock = -1};
        /* The user has not clicked anything yet when the tokens could not be kept. */
        int r = oauth_store_open(&l->store, target->name, target->url, true, err);
        if (r < 0)
                return r;
        l->had_before = oauth_store_read(&l->store, &l->before, NULL) == 0;
        r = oauth_discover(target, &l->found, err);
        if (r >= 0 && !target->config->client_credentials)
                r = open_listener(l, &listener, err);
        if (r >= 0)
                r = run(l, &listener, err);
        oauth_listener_close(&listener);
        return r;
}

static int remove_login(struct oauth_store *store, struct oauth_record *record, struct error *err)
{
        struct error why = {};

        int r = oauth_store_lock(store, err);
        if (r < 0)
                return r;
        r = oauth_store_read(store, record, &why);
        if (r == -ENOENT) {
                r = oauth_store_remove(store, err);
                return r < 0 ? r : 1;
        }
        /* A file that cannot be read is removed all the same. */
        if (r >= 0)
                r = oauth_token_revoke(record, &why);
        int removed = oauth_store_remove(store, err);
        if (removed < 0)
                return removed;
        return r < 0 ? error_set(err, -r, "the tokens were removed here, but not revoked: %s",
                                 why.text)
                     : 0;
}

int oauth_logout(const struct oauth_target *target, struct error *err)
{
        _cleanup_store_ struct oauth_store store;
        _cleanup_free_ struct oauth_record *record = calloc(1, sizeof(*record));
        struct error why = {};

        if (!record)
                return error_errno(err, ENOMEM, "logout");
        int r = oauth_store_open(&store, target->name, target->url, false, &why);
        if (r >= 0)
                r = remove_login(&store, record, err);
        else if (r != -ENOENT)
                *err = why;
        bool revoked = r == 0 && *record->revocation_endpoint;
        explicit_bzero(record, sizeof(*record));
        if (r < 0 && r != -ENOENT)
                return r;
        printf("%s ", r == 0 ? "Logged out of" : "There was no login to");
        printable_print(stdout, target->name);
        puts(r != 0 ? "." : revoked ? "; its tokens are revoked." : "; its tokens are removed.");
        return 0;
}
