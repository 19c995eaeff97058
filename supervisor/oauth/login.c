/*
 * `cloister login`: discovery, client, browser, tokens.
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
#include "base/printable.h"
#include "supervisor/oauth/discovery.h"
#include "supervisor/oauth/form.h"
#include "supervisor/oauth/listener.h"
#include "supervisor/oauth/pkce.h"
#include "supervisor/oauth/registration.h"
#include "supervisor/oauth/store.h"
#include "supervisor/oauth/token.h"
#include "supervisor/options/options.h"

struct login {
        const struct oauth_target *target;
        const struct options *options;
        struct oauth_discovery found;
        struct oauth_record before, record;
        bool had_before;
        char state[PKCE_LENGTH + 1], verifier[PKCE_LENGTH + 1], challenge[PKCE_LENGTH + 1];
        struct oauth_redirect redirect;
};

static void cleanup_login(struct login **login)
{
        if (*login)
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
        };
        int r = oauth_url_append_shown(endpoint, to);

        if (r >= 0)
                r = buffer_append_text(to, strchr(endpoint, '?') ? "&" : "?");
        size_t from = to->length;
        for (size_t i = 0; i < ARRAY_SIZE(parameters) && r >= 0; i++)
                r = form_add(to, from, parameters[i][0], parameters[i][1]);
        return r;
}

/* The last login, if its file can be used. */
static void read_before(struct login *l)
{
        _cleanup_store_ struct oauth_store store;

        if (oauth_store_open(&store, l->target->name, l->target->url, false, NULL) < 0)
                return;
        l->had_before = oauth_store_read(&store, l->target->name, l->target->url, &l->before,
                                         NULL) == 0;
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
        return oauth_choose_client(target, &l->found, l->had_before ? &l->before : NULL,
                                   listener->port, listener->uri, &record->client,
                                   &record->registered, err);
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

static int save(const struct login *l, struct error *err)
{
        _cleanup_store_ struct oauth_store store;

        int r = oauth_store_open(&store, l->target->name, l->target->url, true, err);
        if (r >= 0)
                r = oauth_store_lock(&store, err);
        return r < 0 ? r : oauth_store_write(&store, &l->record, err);
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

static int refused_client(const char *why, struct error *err)
{
        return error_set(err, EKEYREJECTED,
                         "%s; check client_id and the secret or key in the server's \"oauth\"",
                         why);
}

/* An authorization server that has deleted the client's registration returns invalid_client here. */
static int exchange(struct login *l, const struct oauth_listener *listener, struct error *err)
{
        char word[2 * OAUTH_NAME_MAX];
        struct error why = {};

        int r = oauth_token_exchange(&l->record, l->redirect.code, l->verifier, listener->uri,
                                     &why);
        if (r >= 0)
                return r;
        if (r == -EKEYREJECTED && l->record.registered && l->had_before)
                return error_set(
                        err, EKEYREJECTED,
                        "%s; 'cloister logout %s' forgets the registration of earlier logins, then log in again",
                        why.text, oauth_shell_word(l->target->name, word, sizeof(word)));
        if (r == -EKEYREJECTED && l->target->config->client_id)
                return refused_client(why.text, err);
        *err = why;
        return r;
}

/* No browser is needed: the client has its own credentials. */
static int log_client_in(struct login *l, struct error *err)
{
        struct error why = {};
        int r = oauth_token_for_client(&l->record, &why);

        if (r == -EKEYREJECTED)
                return refused_client(why.text, err);
        if (r < 0)
                *err = why;
        return r;
}

static int log_person_in(struct login *l, struct oauth_listener *listener, struct error *err)
{
        int r = run_browser_step(l, listener, err);

        return r < 0 ? r : exchange(l, listener, err);
}

static int run(struct login *l, struct oauth_listener *listener, struct error *err)
{
        int r = fill_record(l, listener, err);

        if (r >= 0)
                r = l->record.credentials ? log_client_in(l, err) : log_person_in(l, listener, err);
        if (r >= 0)
                r = save(l, err);
        if (r >= 0)
                show_result(l);
        return r;
}

int oauth_login(const struct oauth_target *target, const struct options *options, struct error *err)
{
        _cleanup_(cleanup_login) struct login *l = calloc(1, sizeof(*l));
        _cleanup_store_ struct oauth_store store;
        struct oauth_listener listener = {.fd = -1};

        if (!l)
                return error_errno(err, ENOMEM, "login");
        l->target = target;
        l->options = options;
        /* The user has not clicked anything yet when the tokens could not be kept. */
        int r = oauth_store_open(&store, target->name, target->url, true, err);
        if (r < 0)
                return r;
        read_before(l);
        r = oauth_discover(target, &l->found, err);
        if (r >= 0 && !target->config->client_credentials)
                r = open_listener(l, &listener, err);
        if (r >= 0)
                r = run(l, &listener, err);
        oauth_listener_close(&listener);
        return r;
}
