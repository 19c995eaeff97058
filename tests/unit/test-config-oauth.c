/* The key "oauth" of a server. */
#include "policy/config/add.h"
#include "policy/config/config.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "tests/unit/test.h"

/* A config with one server "s" whose oauth is this text. */
static struct config *config_of(const char *oauth)
{
        struct config *config = config_new();
        struct error err = {};
        char text[8192];

        snprintf(text, sizeof(text),
                 "{\"mcpServers\": {\"s\": {\"url\": \"https://a.example/mcp\", \"oauth\": %s}}}",
                 oauth);
        check_eq_int(config_add(config, "f", text, strlen(text), &err), 0);
        check_eq_int((int)config->n_servers, 1);
        return config;
}

static void check_problem(const char *oauth, const char *expected)
{
        struct config *config = config_of(oauth);
        const char *problem = config->servers[0].problem;

        if (!problem || !strstr(problem, expected)) {
                fprintf(stderr, "%s: %s\n", oauth, problem ? problem : "no problem");
                check(false);
        }
        config_free(config);
}

static void test_all(void)
{
        struct config *config = config_of(
                "{\"client_id\": \"x\", \"client_secret\": \"${S_1}\", \"issuer\": \"https://i\","
                "\"client_metadata_url\": \"https://c/d\", \"scopes\": [\"a\", \"b\"],"
                "\"redirect_port\": 8765, \"private\": true}");
        const struct config_oauth *o = &config->servers[0].oauth;
        struct config_server copy;

        check(!config->servers[0].problem && o->is_set && o->private);
        check_eq_str(o->client_secret, "${S_1}");
        check_eq_str(o->scopes, "a b");
        check_eq_int(o->redirect_port, 8765);
        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &copy), 0);
        config_free(config);
        check_eq_str(copy.oauth.client_id, "x");
        check_eq_str(copy.oauth.issuer, "https://i");
        check_eq_str(copy.oauth.client_metadata_url, "https://c/d");
        check_eq_str(copy.oauth.scopes, "a b");
        check(copy.oauth.is_set && copy.oauth.private && copy.oauth.redirect_port == 8765);
        config_done(CONFIG_SERVER, &copy);
}

static void test_credentials(void)
{
        struct config *config = config_of(
                "{\"client_id\": \"x\", \"private_key_file\": \"/k\", \"key_id\": \"1\", \"issuer\": \"https://i\","
                "\"grant\": \"client_credentials\"}");
        struct config_server copy;

        check(!config->servers[0].problem);
        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &copy), 0);
        config_free(config);
        check(copy.oauth.client_credentials);
        check_eq_str(copy.oauth.private_key_file, "/k");
        check_eq_str(copy.oauth.key_id, "1");
        config_done(CONFIG_SERVER, &copy);
        check_problem("{\"grant\": \"password\"}", "authorization_code");
        check_problem("{\"grant\": \"client_credentials\", \"client_id\": \"x\"}",
                      "needs a client_secret");
        check_problem("{\"key_id\": \"1\"}", "no private_key_file");
        check_problem("{\"private_key_file\": \"k\"}", "absolute path");
        check_problem("{\"private_key_file\": \"/k\", \"client_secret\": \"${S}\"}", "one of");
        check_problem("{\"private_key_file\": \"/k\", \"client_id\": \"x\"}", "\"issuer\"");
}

static void test_others_names(void)
{
        struct config *config = config_of("{\"clientId\": \"x\", \"callbackPort\": 1}");

        check_eq_str(config->servers[0].oauth.client_id, "x");
        check_eq_int(config->servers[0].oauth.redirect_port, 1);
        check_eq_int((int)config->n_warnings, 0);
        config_free(config);
        config = config_of("{\"client_ID\": \"x\", \"scopes\": \"a b\"}");
        check(!config->servers[0].problem && !config->servers[0].oauth.client_id);
        check_eq_str(config->servers[0].oauth.scopes, "a b");
        check_eq_int((int)config->n_warnings, 1);
        config_free(config);
}

static void test_problems(void)
{
        char text[4096];

        check_problem("false", "must be an object");
        check_problem("{\"client_id\": \"\"}", "1 to 2048 printable");
        check_problem("{\"client_id\": \"a\\nb\"}", "1 to 2048 printable");
        snprintf(text, sizeof(text), "{\"client_id\": \"%02049d\"}", 0);
        check_problem(text, "1 to 2048 printable");
        check_problem("{\"client_secret\": \"plain\"}", "must name a variable");
        check_problem("{\"client_secret\": \"${}\"}", "must name a variable");
        check_problem("{\"client_secret\": \"${A:-plain}\"}", "must name a variable");
        check_problem("{\"client_secret\": \"${A}\"}", "no client_id");
        check_problem("{\"client_id\": \"x\", \"client_secret\": \"${A}\"}", "issuer");
        check_problem("{\"client_id\": \"x\", \"client_secret_file\": \"~/f\"}", "issuer");
        check_problem(
                "{\"client_id\": \"x\", \"issuer\": \"https://i\", \"client_secret\": \"${A}\","
                "\"client_secret_file\": \"~/f\"}",
                "one of client_secret, client_secret_file");
        check_problem("{\"client_secret_file\": \"f\"}", "absolute path");
        check_problem("{\"issuer\": \"i\"}", "URL of the authorization server");
        check_problem("{\"client_metadata_url\": \"https://c\"}", "with a path");
        check_problem("{\"client_metadata_url\": \"http://c/d\"}", "https");
        check_problem("{\"scopes\": [1]}", "array of scopes");
        check_problem("{\"scopes\": []}", "array of scopes");
        check_problem("{\"scopes\": [\"a\\\"\"]}", "array of scopes");
        snprintf(text, sizeof(text), "{\"scopes\": [\"%02048d\"]}", 0);
        check_problem(text, "array of scopes");
        check_problem("{\"redirect_port\": 0}", "1 to 65535");
        check_problem("{\"redirect_port\": 65536}", "1 to 65535");
        check_problem("{\"private\": \"yes\"}", "true or false");
}

static const char *lookup(const char *name)
{
        return strcmp(name, "HOME") == 0 ? "/home/u" : strcmp(name, "A") == 0 ? "secret" : NULL;
}

static const struct config_values values = {.variable = lookup};

/* A start of the server does not need the secret: only a login expands it. */
static void test_expansion(void)
{
        struct config *config = config_of(
                "{\"client_id\": \"x\", \"client_secret\": \"${B}\", \"issuer\": \"https://i\"}");
        struct config_server copy;
        struct error err = {};

        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &copy), 0);
        check_eq_int(config_server_expand(&copy, &values, &err), 0);
        check_eq_int(config_oauth_expand(&copy.oauth, &values, &err), -ENOKEY);
        config_done(CONFIG_SERVER, &copy);
        config_free(config);
        config = config_of("{\"client_id\": \"x\", \"client_secret_file\": \"~/f\","
                           "\"issuer\": \"https://i\"}");
        check_eq_int(config_copy(CONFIG_SERVER, &config->servers[0], &copy), 0);
        check_eq_int(config_oauth_expand(&copy.oauth, &values, &err), 0);
        check_eq_str(copy.oauth.client_secret_file, "/home/u/f");
        config_done(CONFIG_SERVER, &copy);
        config_free(config);
}

int main(void)
{
        run(test_all);
        run(test_others_names);
        run(test_problems);
        run(test_credentials);
        run(test_expansion);
        return 0;
}
