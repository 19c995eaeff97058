/* Finds the authorization server of an MCP server. */
#include "supervisor/oauth/discovery.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/oauth/fetch.h"

static const char version_header[] = "MCP-Protocol-Version: 2026-07-28";
static const char resource_suffix[] = "oauth-protected-resource";

struct found {
        const struct oauth_target *target;
        int status; /* of the server's answer without a token */
        struct challenge challenge;
        struct oauth_resource resource;
        bool has_resource;
        struct oauth_discovery result;
};

/* The server's answer to a request without a token. Its body is not read: it may be a stream. */
static int ask(struct found *f, struct error *err)
{
        static const char body[] =
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{"
                "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
        _cleanup_response_ struct oauth_response response = {};
        const struct oauth_request request = {
                .url = f->target->url,
                .reach = &f->target->reach,
                .what = "the server",
                .body = body,
                .length = sizeof(body) - 1,
                .type = "application/json",
                .headers_only = true,
                .headers = {"Accept: application/json, text/event-stream", version_header,
                            "Mcp-Method: server/discover"},
        };

        int r = oauth_fetch(&request, &response, err);
        if (r < 0)
                return r;
        f->status = (int)response.status;
        if (response.challenge.length > 0)
                challenge_parse(buffer_bytes(&response.challenge), response.challenge.length,
                                &f->challenge);
        return 0;
}

/* Fetches a JSON document. Returns the HTTP status or negative errno. */
static int get(const struct found *f, const char *url, const char *what, struct oauth_response *ret,
               struct error *err)
{
        const struct oauth_request request = {
                .url = url,
                .reach = &f->target->reach,
                .what = what,
                .headers = {"Accept: application/json", version_header},
        };

        int r = oauth_fetch(&request, ret, err);
        return r < 0 ? r : (int)ret->status;
}

/*
 * Whether the document at `url` may speak for the server. RFC 9728, section 3.3: `resource` is the
 * identifier that the document's well-known URL was made from, or, where the server itself named the
 * document, the server's URL. A document at the root of the origin speaks for all that is below it.
 */
static bool speaks_for(const struct found *f, const char *url)
{
        char root[OAUTH_URL_MAX + 1], origin[OAUTH_URL_MAX + 1];
        const char *resource = f->resource.resource, *server = f->target->url;

        if (oauth_url_same(resource, server))
                return true;
        return oauth_url_origin(server, origin, sizeof(origin)) >= 0 &&
               oauth_url_same(resource, origin) && oauth_url_below(resource, server) &&
               oauth_url_well_known(server, resource_suffix, OAUTH_AT_ROOT, root, sizeof(root)) >=
                       0 &&
               oauth_url_same(root, url);
}

/* Returns 1 when the document was taken, 0 when there is none. */
static int take_resource(struct found *f, const char *url, bool must, struct error *err)
{
        static const char what[] = "the resource metadata";
        _cleanup_response_ struct oauth_response response = {};

        int r = get(f, url, what, &response, err);
        if (r < 0)
                return r;
        if (r != 200)
                return must ? error_set(err, EIO, "%s (%.100s) answers HTTP status %d", what, url,
                                        r)
                            : 0;
        r = oauth_parse_resource(buffer_bytes(&response.body), response.body.length, &f->resource,
                                 must ? err : NULL);
        if (r < 0)
                return must ? error_context(err, "%s (%.100s)", what, url) : 0;
        r = oauth_url_check(f->resource.resource, &f->target->reach,
                            "the resource metadata's \"resource\"", err);
        if (r < 0)
                return r;
        if (!speaks_for(f, url))
                return error_set(
                        err, EACCES,
                        "%s (%.100s) is for another resource (%.100s): a token would be one for that",
                        what, url, f->resource.resource);
        f->has_resource = true;
        return 1;
}

static int find_resource(struct found *f, struct error *err)
{
        const char *url = f->target->url;
        char place[OAUTH_URL_MAX + 1];

        if (*f->challenge.resource_metadata)
                return take_resource(f, f->challenge.resource_metadata, true, err);
        int r = 0;
        if (oauth_url_has_path(url) &&
            oauth_url_well_known(url, resource_suffix, OAUTH_INSERTED, place, sizeof(place)) >= 0)
                r = take_resource(f, place, false, err);
        if (r == 0 &&
            oauth_url_well_known(url, resource_suffix, OAUTH_AT_ROOT, place, sizeof(place)) >= 0)
                r = take_resource(f, place, false, err);
        return r;
}

/* The authorization server that is used: the config's, else the first that the server names. */
static int choose_issuer(const struct found *f, char ret[OAUTH_URL_MAX + 1], struct error *err)
{
        const char *wanted = f->target->config->issuer;

        if (!f->has_resource && !wanted)
                return oauth_url_origin(f->target->url, ret, OAUTH_URL_MAX + 1) < 0
                               ? error_set(err, EINVAL, "the server's url is not valid")
                               : 0;
        if (f->has_resource && f->resource.n_servers == 0)
                return error_set(err, EBADMSG,
                                 "the resource metadata names no authorization server");
        for (size_t i = 0; i < f->resource.n_servers; i++) {
                if (wanted && strcmp(wanted, f->resource.servers[i]) != 0)
                        continue;
                memcpy(ret, f->resource.servers[i], OAUTH_URL_MAX + 1);
                return 0;
        }
        if (f->has_resource)
                return error_set(
                        err, EACCES,
                        "the server names another authorization server (%.100s) than the config's issuer",
                        f->resource.servers[0]);
        snprintf(ret, OAUTH_URL_MAX + 1, "%s", wanted);
        return 0;
}

/* Returns 1 when the document was taken, 0 when there is none of its kind. */
static int take_server(struct found *f, const char *url, const char *issuer, struct error *err)
{
        static const char what[] = "the authorization server's metadata";
        _cleanup_response_ struct oauth_response response = {};

        int r = get(f, url, what, &response, err);
        if (r < 0)
                return r;
        struct error why = {};
        if (r != 200 && error_is_set(err)) /* what an earlier place said tells more */
                return 0;
        if (r != 200)
                r = error_set(&why, ENOENT, "HTTP status %d", r);
        else
                r = oauth_parse_server(buffer_bytes(&response.body), response.body.length,
                                       &f->result.server, &why);
        if (r < 0) {
                error_set(err, -r, "%s (%.100s): %s", what, url, why.text);
                return 0;
        }
        if (strcmp(f->result.server.issuer, issuer) != 0)
                return error_set(err, EACCES,
                                 "%s (%.100s) is of another issuer (%.100s) than the one asked for",
                                 what, url, f->result.server.issuer);
        return 1;
}

static int find_server(struct found *f, const char *issuer, struct error *err)
{
        static const struct {
                const char *suffix;
                enum oauth_place place;
        } places[] = {
                {"oauth-authorization-server", OAUTH_INSERTED},
                {"openid-configuration", OAUTH_INSERTED},
                {"openid-configuration", OAUTH_APPENDED},
        };
        size_t n = oauth_url_has_path(issuer) ? 3 : 2;

        int r = oauth_url_check(issuer, &f->target->reach, "the authorization server's issuer",
                                err);
        if (r >= 0 && strchr(issuer, '?'))
                r = error_set(err, EINVAL, "the authorization server's issuer has a query");
        for (size_t i = 0; i < n && r == 0; i++) {
                char url[OAUTH_URL_MAX + 1];
                r = oauth_url_well_known(issuer, places[i].suffix, places[i].place, url,
                                         sizeof(url));
                if (r >= 0)
                        r = take_server(f, url, issuer, err);
        }
        return r;
}

/* A server of the transport of 2024-11-05 takes no POST at its url. */
static int check_asks(const struct found *f, struct error *err)
{
        if (f->status == 401 || f->status == 403 || f->status == 404 || f->status == 405)
                return 0;
        return error_set(
                err, ENOTSUP, "the server does not ask for a login (HTTP status %d): %s", f->status,
                f->status / 100 == 2
                        ? "it needs none"
                        : "it needs none, or its url is not that of an MCP server; 'cloister tools' tries it");
}

/* MCP 2025-03-26: a server without metadata has its endpoints at fixed paths. */
static int use_defaults(struct found *f, const char *origin, struct error *err)
{
        struct oauth_server *s = &f->result.server;
        const int size = OAUTH_URL_MAX + 1;

        int r = check_asks(f, err);
        if (r < 0)
                return r;
        f->result.assumed = f->status;
        *s = (struct oauth_server){.s256 = true, .methods = 1u << OAUTH_NONE | 1u << OAUTH_POST};
        if (strlen(origin) + 16 > OAUTH_URL_MAX)
                return error_set(err, EINVAL, "the server's url is too long");
        snprintf(s->issuer, size, "%s", origin);
        snprintf(s->authorization_endpoint, size, "%s/authorize", origin);
        snprintf(s->token_endpoint, size, "%s/token", origin);
        snprintf(s->registration_endpoint, size, "%s/register", origin);
        return 0;
}

/* Another client's parameters in the page's URL would replace ours. */
static int check_page(const char *url, const struct oauth_reach *reach, struct error *err)
{
        static const char *const ours[] = {
                "response_type",
                "client_id",
                "redirect_uri",
                "scope",
                "state",
                "resource",
                "code_challenge",
                "code_challenge_method",
                "request",
                "nonce",
                "request_uri",
                "response_mode",
                NULL,
        };
        static const char what[] = "the authorization endpoint";

        int r = oauth_url_check(url, reach, what, err);
        const char *name = r < 0 ? NULL : oauth_url_parameter(url, ours);
        return name ? error_set(err, EACCES, "%s (%.100s) has a parameter \"%s\" of its own", what,
                                url, name)
                    : r;
}

/* Checks the endpoints and methods that the step in the browser needs. */
static int check_browser(const struct found *f, struct error *err)
{
        const struct oauth_server *s = &f->result.server;

        if (!*s->authorization_endpoint)
                return error_set(
                        err, ENOTSUP,
                        "the authorization server logs in clients only, not people: set client_id, a secret and \"grant\": \"client_credentials\" in the server's \"oauth\"");
        if (!s->s256)
                return error_set(
                        err, ENOTSUP,
                        "the authorization server does not say that it supports PKCE with S256, without which a login is not safe");
        return check_page(s->authorization_endpoint, &f->target->reach, err);
}

static int check_server(struct found *f, struct error *err)
{
        const struct oauth_reach *reach = &f->target->reach;
        struct oauth_server *s = &f->result.server;

        int r = f->target->config->client_credentials ? 0 : check_browser(f, err);
        if (r >= 0)
                r = oauth_url_check(s->token_endpoint, reach, "the token endpoint", err);
        if (r >= 0 && *s->registration_endpoint)
                r = oauth_url_check(s->registration_endpoint, reach, "the registration endpoint",
                                    err);
        if (r >= 0 && *s->revocation_endpoint &&
            oauth_url_check(s->revocation_endpoint, reach, "", NULL) < 0)
                *s->revocation_endpoint = '\0';
        return r;
}

/* MCP, "Scope Selection Strategy": the challenge's scopes, else all that the resource supports. */
static void choose_scope(const struct found *f, char ret[CHALLENGE_SCOPE_MAX + 1])
{
        const char *wanted = f->target->config->scopes;
        const size_t size = CHALLENGE_SCOPE_MAX + 1;

        scope_add(ret, size,
                  wanted                ? wanted
                  : *f->challenge.scope ? f->challenge.scope
                                        : f->resource.scopes);
        if (!wanted && *ret && f->result.server.offline_access &&
            !f->target->config->client_credentials)
                scope_add(ret, size, "offline_access");
}

static int find_all(struct found *f, struct error *err)
{
        char issuer[OAUTH_URL_MAX + 1];

        int r = ask(f, err);
        if (r >= 0)
                r = find_resource(f, err);
        if (r >= 0)
                r = choose_issuer(f, issuer, err);
        if (r >= 0)
                r = find_server(f, issuer, err);
        if (r == 0 && !f->has_resource && !f->target->config->issuer)
                r = use_defaults(f, issuer, err);
        else if (r == 0)
                r = error_is_set(err) ? -err->code : -ENOENT;
        return r < 0 ? r : check_server(f, err);
}

int oauth_discover(const struct oauth_target *target, struct oauth_discovery *ret,
                   struct error *err)
{
        _cleanup_free_ struct found *f = calloc(1, sizeof(*f));
        struct error why = {};

        if (!f)
                return error_errno(err, ENOMEM, "discovery");
        f->target = target;
        int r = oauth_url_check(target->url, &target->reach, "the server's url", &why);
        if (r >= 0)
                r = find_all(f, &why);
        if (r < 0) {
                if (err)
                        *err = why;
                return r;
        }
        *ret = f->result;
        snprintf(ret->resource, sizeof(ret->resource), "%s",
                 f->has_resource ? f->resource.resource : target->url);
        choose_scope(f, ret->scope);
        return 0;
}
