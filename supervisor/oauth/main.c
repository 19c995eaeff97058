/* cloister-oauth: parses the arguments that `cloister login`, `cloister logout` and `cloister rules` pass. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/path.h"
#include "base/places.h"
#include "policy/config/add.h"
#include "policy/config/keys.h"
#include "policy/config/server.h"
#include "policy/did-you-mean.h"
#include "supervisor/config/config-files.h"
#include "supervisor/oauth/login.h"
#include "supervisor/oauth/proof.h"
#include "supervisor/oauth/refresh.h"
#include "supervisor/oauth/store.h"
#include "supervisor/options/options.h"
#include "supervisor/trust/url.h"

enum {
        KEY_FILE_MAX = 16 * 1024,
        READ_FILE = LANDLOCK_READ & ~(1 << 3), /* the rights that a rule for a file may have */
};

static const char *lookup(const char *name)
{
        return getenv(name);
}

static const struct config_values values = {lookup, credential_read};

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

/* The server's entry, expanded; config_done(CONFIG_SERVER, ) it. */
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
        if (config_copy(CONFIG_SERVER, found, ret) < 0)
                return error_errno(err, ENOMEM, "config");
        int r = config_server_expand(ret, &values, err);
        return r < 0 ? r : config_oauth_expand(&ret->oauth, &values, err);
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

static int check_secret(const struct oauth_target *target, const char *from, struct error *err)
{
        const char *text = target->secret;

        if (*text == '\0')
                return error_set(err, EINVAL, "%s has no secret", from);
        for (; *text; text++)
                if (*text <= ' ' || *text > '~')
                        return error_set(err, EINVAL,
                                         "%s holds characters that a secret cannot have", from);
        return 0;
}

/* Reads a file of fewer bytes than `size`. Returns the length or negative errno. */
static ssize_t read_file(const char *path, const char *from, char *to, size_t size,
                         struct error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return error_errno(err, errno, "%s: open %s", from, path);
        ssize_t n = fd_read_full(fd, to, size);
        if (n < 0)
                return error_errno(err, (int)-n, "%s: read %s", from, path);
        return (size_t)n < size ? n
                                : error_set(err, EFBIG, "%s: %s is longer than %zu bytes", from,
                                            path, size - 1);
}

static int read_key(struct oauth_target *target, const char *path, struct error *err)
{
        char pem[KEY_FILE_MAX];
        ssize_t n = read_file(path, "private_key_file", pem, sizeof(pem), err);

        if (n >= 0 && oauth_key_read(pem, (size_t)n, target->key, err) < 0)
                n = error_context(err, "private_key_file: %s", path);
        explicit_bzero(pem, sizeof(pem));
        return n < 0 ? (int)n : 0;
}

/* Reads the config's client_secret, client_secret_file or private_key_file into the target. */
static int read_secret(struct oauth_target *target, struct error *err)
{
        const struct config_oauth *config = target->config;
        static const char from[] = "client_secret_file";

        *target->secret = '\0';
        *target->key = '\0';
        if (config->private_key_file)
                return read_key(target, config->private_key_file, err);
        if (config->client_secret_file) {
                ssize_t n = read_file(config->client_secret_file, from, target->secret,
                                      sizeof(target->secret), err);
                if (n < 0)
                        return (int)n;
                target->secret[n] = '\0';
                target->secret[strcspn(target->secret, "\r\n")] = '\0';
                return check_secret(target, from, err);
        }
        if (!config->client_secret)
                return 0;
        if (strlen(config->client_secret) > OAUTH_SECRET_MAX)
                return error_set(err, EINVAL, "client_secret is longer than %d bytes",
                                 OAUTH_SECRET_MAX);
        memcpy(target->secret, config->client_secret, strlen(config->client_secret) + 1);
        return check_secret(target, "client_secret", err);
}

static int limit(struct error *err)
{
        static const struct {
                int resource;
                rlim_t most;
        } limits[] = {
                {RLIMIT_CORE, 0},
                {RLIMIT_FSIZE, 1024 * 1024},
                {RLIMIT_NOFILE, 64},
                {RLIMIT_DATA, 256 * 1024 * 1024},
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                struct rlimit now;
                if (getrlimit(limits[i].resource, &now) < 0)
                        return error_errno(err, errno, "getrlimit");
                rlim_t most = limits[i].most < now.rlim_max ? limits[i].most : now.rlim_max;
                const struct rlimit new = {most, most};
                if (setrlimit(limits[i].resource, &new) < 0)
                        return error_errno(err, errno, "setrlimit");
        }
        return 0;
}

static const char *or_none(const char *path)
{
        return path && *path ? path : "/nonexistent";
}

/* Gives up privileges, core dumps, being traced, and all files without a rule. */
static int give_up(const struct landlock_rule *rules, size_t n, bool network, struct error *err)
{
        int r = limit(err);

        if (r < 0)
                return r;
        r = capabilities_keep(0);
        if (r < 0)
                return error_errno(err, -r, "give up capabilities");
        if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_errno(err, errno, "prctl");
        r = landlock_confine(rules, n, network, err);
        return r < 0 ? r : 0;
}

/* Keeps its own files, and those that libcurl and the resolver need to make connections. The files that the config names have been read. */
static int confine(struct error *err)
{
        char tokens[512];

        if (place_state("oauth", tokens, sizeof(tokens)) < 0)
                return error_set(err, ENOENT, "tokens: " PLACE_STATE_MISSING);
        const struct landlock_rule rules[] = {
                {tokens, LANDLOCK_READ | LANDLOCK_CHANGE | LANDLOCK_TRUNCATE},
                {"/etc", LANDLOCK_READ},
                {"/usr", LANDLOCK_READ}, /* certificates, name service modules */
                {"/lib", LANDLOCK_READ},
                {"/lib64", LANDLOCK_READ},
                {"/nix", LANDLOCK_READ},
                {"/run", LANDLOCK_READ}, /* where /etc/resolv.conf leads */
                {"/var/lib/ca-certificates", LANDLOCK_READ},
                {"/dev/null", READ_FILE | LANDLOCK_WRITE_FILE},
                {"/dev/urandom", READ_FILE},
                {or_none(getenv("SSL_CERT_FILE")), READ_FILE},
                {or_none(getenv("SSL_CERT_DIR")), READ_FILE},
        };

        return give_up(rules, ARRAY_SIZE(rules), true, err);
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
        int r = login ? read_secret(&target, err) : 0;
        /* Landlock's rules name what exists. */
        if (r >= 0 && login && place_state("oauth", tokens, sizeof(tokens)) == 0)
                r = path_make_directories(tokens, 0700);
        if (r < 0)
                return error_is_set(err) ? r : oauth_store_cannot_make(tokens, -r, err);
        r = confine(err);
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
        config_done(CONFIG_SERVER, &server);
        return r;
}

/*
 * For `cloister rules` and the monitor, which do not load libcurl: reads a URL per line, and prints a line for each: its host and port, or
 * nothing if it is not a URL that a rule can be about.
 */
static int print_urls(struct error *err)
{
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        ssize_t n;

        int r = give_up(NULL, 0, false, err);
        if (r < 0)
                return r;
        while ((n = getline(&line, &size, stdin)) > 0) {
                struct rules_url parts;
                n -= line[n - 1] == '\n';
                if (trust_read_url(line, (size_t)n, &parts))
                        printf("%s %u\n", parts.host, parts.port);
                else
                        putchar('\n');
                if (fflush(stdout) != 0)
                        return error_errno(err, EIO, "standard output");
        }
        return 0;
}

static int dispatch(char **argv, struct error *err)
{
        struct options o;
        const char *verb = argv[0] ? argv[0] : "";

        if (strcmp(verb, "refresh") == 0) {
                int r = confine(err);
                return r < 0 ? r : oauth_refresh(err);
        }
        if (strcmp(verb, "url") == 0)
                return print_urls(err);
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
