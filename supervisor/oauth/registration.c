#include "supervisor/oauth/registration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json-out.h"
#include "supervisor/oauth/fetch.h"

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

int oauth_choose_client(const struct oauth_target *target, const struct oauth_discovery *found,
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
