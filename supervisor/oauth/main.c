/* cloister-oauth: parses the arguments that `cloister login` and `cloister logout` pass. */
#include <curl/curl.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "policy/config/add.h"
#include "policy/config/expand.h"
#include "policy/config/server.h"
#include "policy/did-you-mean.h"
#include "supervisor/config/config-files.h"
#include "supervisor/oauth/confine.h"
#include "supervisor/oauth/login.h"
#include "supervisor/oauth/logout.h"
#include "supervisor/oauth/refresh.h"
#include "supervisor/oauth/store.h"
#include "supervisor/options/options.h"

static const char *lookup(const char *name)
{
        return getenv(name);
}

static int not_found(const struct config *config, const char *name, struct error *err)
{
        const char *names[CONFIG_SERVERS_MAX + 1] = {};

        for (size_t i = 0, n = 0; i < config->n_servers && n < CONFIG_SERVERS_MAX; i++)
                if (config->servers[i].url)
                        names[n++] = config->servers[i].name;
        const char *nearest = did_you_mean(name, names);
        return error_set(err, ENOENT, "there is no server \"%s\" in the config%s%s%s", name,
                         nearest ? "; did you mean " : "", nearest ? nearest : "",
                         nearest ? "?" : "");
}

/* The server's entry, expanded; config_server_done() it. */
static int find_server(const struct config *config, const char *name, struct config_server *ret,
                       struct error *err)
{
        const struct config_server *found = NULL;

        for (size_t i = 0; i < config->n_servers && !found; i++)
                if (strcmp(config->servers[i].name, name) == 0)
                        found = &config->servers[i];
        if (!found)
                return not_found(config, name, err);
        if (found->problem)
                return error_set(err, EINVAL, "%s: server \"%s\": %s", found->place, name,
                                 found->problem);
        if (!found->url)
                return error_set(err, EINVAL,
                                 "server \"%s\" is started by a command: it needs no login here",
                                 name);
        if (config_server_copy(found, ret) < 0)
                return error_errno(err, ENOMEM, "config");
        int r = config_server_expand(ret, lookup, err);
        return r < 0 ? r : config_oauth_expand(&ret->oauth, lookup, err);
}

static bool has_authorization(const struct config_server *server)
{
        for (char **header = server->headers; header && *header; header++) {
                if (strncasecmp(*header, "authorization:", 14) == 0)
                        return true;
        }
        return false;
}

/* Servers are reached as this user, if that is another one than root: the tokens of a login are read
 * from that user's files. */
static const struct passwd *other_user(const struct config *config)
{
        const char *sudo = getenv("SUDO_UID");
        const struct passwd *user = NULL;

        if (geteuid() != 0)
                return NULL;
        if (config->user)
                user = getpwnam(config->user);
        else if (sudo)
                user = getpwuid((uid_t)strtoul(sudo, NULL, 10));
        return user && user->pw_uid != 0 ? user : NULL;
}

/* A login that nothing would use is refused. */
static int check_use(const struct config *config, const struct config_server *server,
                     struct error *err)
{
        const struct passwd *user = other_user(config);

        if (server->token_file || server->token_command || has_authorization(server))
                return error_set(
                        err, EINVAL,
                        "server \"%s\" has a token in its entry, which is used instead of a login: remove it there first",
                        server->name);
        if (user)
                return error_set(
                        err, EPERM,
                        "servers are reached as user %s, who has logins of their own: run this as %s, not as root",
                        user->pw_name, user->pw_name);
        return 0;
}

static int run(const char *verb, const struct options *o, const struct config_server *server,
               struct error *err)
{
        bool login = strcmp(verb, "login") == 0;
        struct oauth_target target = {
                .name = server->name,
                .url = server->url,
                .config = &server->oauth,
                .reach = oauth_reach_of(server->url, server->oauth.private),
        };
        char tokens[512];

        if (strlen(server->name) > OAUTH_NAME_MAX || strlen(server->url) > OAUTH_URL_MAX)
                return error_set(err, EINVAL, "the server's name or url is too long");
        int r = login ? oauth_target_read_secret(&target, err) : 0;
        /* Landlock's rules name what exists. */
        if (r >= 0 && login &&
            path_in_user_directory("XDG_STATE_HOME", ".local/state", "cloister/oauth", tokens,
                                   sizeof(tokens)) == 0)
                r = path_make_directories(tokens, 0700);
        if (r < 0)
                return error_is_set(err) ? r : oauth_store_cannot_make(tokens, -r, err);
        r = oauth_confine(err);
        if (r >= 0)
                r = login ? oauth_login(&target, o, err) : oauth_logout(&target, err);
        explicit_bzero(target.secret, sizeof(target.secret));
        explicit_bzero(target.key, sizeof(target.key));
        return r;
}

static int run_for_server(const char *verb, const struct options *o, struct error *err)
{
        struct config *config = config_new();
        struct config_files *files = NULL;
        struct config_server server = {};

        if (!config)
                return error_errno(err, ENOMEM, "config");
        int r = config_files_open(o->configs, o->n_configs, false, NULL, config, &files, err);
        if (r >= 0)
                r = config_finish(config, err);
        if (r >= 0)
                r = find_server(config, o->name, &server, err);
        if (r >= 0 && strcmp(verb, "login") == 0)
                r = check_use(config, &server, err);
        config_files_free(files);
        config_free(config);
        if (r >= 0)
                r = run(verb, o, &server, err);
        config_server_done(&server);
        return r;
}

static int dispatch(char **argv, struct error *err)
{
        struct options o;
        const char *verb = argv[0] ? argv[0] : "";

        if (strcmp(verb, "refresh") == 0) {
                int r = oauth_confine(err);
                return r < 0 ? r : oauth_refresh(err);
        }
        if (strcmp(verb, "login") != 0 && strcmp(verb, "logout") != 0)
                return error_set(err, EINVAL, "cloister-oauth is started by Cloister");
        options_init(&o);
        int r = options_parse(argv + 1, PROGRAM_OAUTH, &o, err);
        if (r >= 0 && !o.name)
                r = error_set(err, EINVAL, "--name is missing");
        return r < 0 ? r : run_for_server(verb, &o, err);
}

int main(int argc, char **argv)
{
        struct error error = {};

        if (fd_open_standard_streams() < 0 || fd_close_range(3, ~0u) < 0)
                return 1;
        prctl(PR_SET_DUMPABLE, 0);
        signal(SIGPIPE, SIG_IGN);
        curl_global_init(CURL_GLOBAL_DEFAULT);
        int r = dispatch(argv + (argc > 0), &error);
        if (r < 0)
                log_error("%s", error.text);
        curl_global_cleanup();
        return r < 0 ? 1 : 0;
}
