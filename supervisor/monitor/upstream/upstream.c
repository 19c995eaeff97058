/* A stdio MCP server as the monitor sees it: the other side of its reaper. */
#include "supervisor/monitor/upstream/upstream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/upstream/apart.h"
#include "supervisor/monitor/upstream/reaper.h"

/*
 * The environment of a stdio server.
 *
 * A server is a third-party program, and the user's environment contains credentials. Other clients
 * pass a short list and the entry's own variables (the official SDKs: HOME, LOGNAME, PATH, SHELL,
 * TERM, USER). We pass these and what programs need to run as in the user's shell: language and
 * time zone, temporary and XDG directories, the display, proxies and certificates, and the
 * directories of the usual launchers (node, npm, uv, pip, docker). All others must be in the entry:
 * "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}.
 */

static const char *const passed[] = {
        "HOME",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "USER", /* the SDKs' list */
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "FTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NVM_DIR",
        "NVM_BIN",
        "VOLTA_HOME",
        "PNPM_HOME",
        "BUN_INSTALL",
        "DENO_DIR",
        "PYENV_ROOT",
        "ASDF_DIR",
        "ASDF_DATA_DIR",
        "JAVA_HOME",
        "GOPATH",
        "CARGO_HOME",
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "CONTAINER_HOST",
};

static const char *const passed_prefixes[] = {
        "LC_", "XDG_", "NODE_", "npm_config_", "NPM_CONFIG_", "UV_", "PIP_",
};

/* Variables of these families that hold a credential. */
static const char *const secret_parts[] = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "_AUTH",
                                           "token", "secret", "password", "_auth"};

static const char default_path[] =
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct env_list {
        char **items; /* NULL-terminated */
        size_t count, room;
};

static size_t name_length(const char *variable)
{
        return strcspn(variable, "=");
}

static bool has_prefix_of_families(const char *variable, size_t n)
{
        bool member = false;

        for (size_t i = 0; i < ARRAY_SIZE(passed_prefixes); i++) {
                size_t length = strlen(passed_prefixes[i]);
                member |= n >= length && strncmp(variable, passed_prefixes[i], length) == 0;
        }
        for (size_t i = 0; member && i < ARRAY_SIZE(secret_parts); i++) {
                const char *found = strstr(variable, secret_parts[i]);
                if (found && found < variable + n)
                        return false;
        }
        return member;
}

static bool is_passed(const char *variable, bool other_home)
{
        size_t n = name_length(variable);

        /* A function exported by an old bash is code; the SDKs leave it out as well. */
        if (variable[n] != '=' || strncmp(variable + n, "=()", 3) == 0)
                return false;
        /* The server runs as another user: our directories are not for it. */
        if (other_home &&
            (strncmp(variable, "XDG_", 4) == 0 || strncmp(variable, "TMPDIR=", 7) == 0))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
                if (strlen(passed[i]) == n && strncmp(variable, passed[i], n) == 0)
                        return true;
        }
        return has_prefix_of_families(variable, n);
}

/* Sets NAME=value, replacing an earlier value. Takes ownership of `variable`; NULL means that
 * there was no memory. */
static int env_put(struct env_list *list, char *variable)
{
        if (!variable)
                return -1;
        size_t n = name_length(variable);
        for (size_t i = 0; i < list->count; i++) {
                if (name_length(list->items[i]) != n || strncmp(list->items[i], variable, n) != 0)
                        continue;
                free(list->items[i]);
                list->items[i] = variable;
                return 0;
        }
        if (list->count + 1 >= list->room) {
                free(variable);
                return -1;
        }
        list->items[list->count++] = variable;
        return 0;
}

static int env_put_pair(struct env_list *list, const char *name, const char *value)
{
        char *variable = NULL;

        if (!value)
                return 0;
        return asprintf(&variable, "%s=%s", name, value) < 0 ? -1 : env_put(list, variable);
}

static int env_fill(struct env_list *list, char *const *parent, const struct upstream_user *user,
                    char *const *own, size_t n_own)
{
        int r = env_put(list, strdup(default_path));

        for (size_t i = 0; r == 0 && parent[i]; i++) {
                if (is_passed(parent[i], user->home != NULL))
                        r = env_put(list, strdup(parent[i]));
        }
        if (r == 0)
                r = env_put_pair(list, "HOME", user->home);
        if (r == 0)
                r = env_put_pair(list, "USER", user->name);
        if (r == 0)
                r = env_put_pair(list, "LOGNAME", user->name);
        for (size_t i = 0; r == 0 && i < n_own; i++)
                r = env_put(list, strdup(own[i]));
        return r;
}

char **upstream_env_new(char *const *parent, const struct upstream_user *user, char *const *own,
                        size_t n_own)
{
        struct env_list list = {.room = n_own + 5};

        for (size_t i = 0; parent[i]; i++)
                list.room++;
        list.items = calloc(list.room, sizeof(char *));
        if (!list.items)
                return NULL;
        if (env_fill(&list, parent, user, own, n_own) < 0) {
                upstream_env_free(list.items);
                return NULL;
        }
        return list.items;
}

void upstream_env_free(char **env)
{
        if (!env)
                return;
        for (size_t i = 0; env[i]; i++)
                free(env[i]);
        free(env);
}

enum { FREE_TIMEOUT_MS = 1000 };

struct upstream {
        pid_t reaper; /* 0 once reaped */
        int pidfd;
        int life;   /* socket; when it is closed, the reaper ends the server */
        int report; /* read end: the server's wait status */
        int result; /* read end: how the exec went; -1 once read */
        struct error exec_error;
};

/* The pipes of one server: the monitor's ends and the reaper's. */
enum { LIFE, REPORT, RESULT, INPUT, OUTPUT, ERRORS, PIPES };
struct pipes {
        int ends[PIPES][2];
};

static void pipes_done(struct pipes *p)
{
        fd_close_many(p->ends[0], sizeof(p->ends) / sizeof(int));
}

/* Neither end is 0, 1 or 2: the child puts the server's own pipes there. */
static int make_pipe(int ends[2])
{
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        for (int i = 0; i < 2; i++) {
                if (ends[i] > 2)
                        continue;
                int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
                if (moved < 0)
                        return -errno;
                close(ends[i]);
                ends[i] = moved;
        }
        return 0;
}

static int pipes_open(struct pipes *p, const struct upstream_user *user, struct error *err)
{
        /* Not a pipe: writing to a reaper that has ended must not raise SIGPIPE. */
        int r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->ends[LIFE]) < 0 ? -errno : 0;

        for (size_t i = REPORT; r >= 0 && i < PIPES; i++)
                r = make_pipe(p->ends[i]);
        if (r < 0)
                return error_errno(err, -r, "pipe");
        /* open("/dev/stderr") checks the mode of the pipe, which belongs to us. No other process can
         * reach an unnamed pipe, so that mode 0666 gives nothing away. */
        if (user->uid != geteuid() &&
            (fchmod(p->ends[INPUT][0], 0666) < 0 || fchmod(p->ends[OUTPUT][0], 0666) < 0 ||
             fchmod(p->ends[ERRORS][0], 0666) < 0))
                return error_errno(err, errno, "fchmod pipe");
        return 0;
}

static pid_t fork_reaper(const struct pipes *p, const struct upstream_launch *launch,
                         struct error *err)
{
        const struct reaper_fds fds = {
                .life = p->ends[LIFE][0],
                .report = p->ends[REPORT][1],
                .result = p->ends[RESULT][1],
                .stdio = {p->ends[INPUT][0], p->ends[OUTPUT][1], p->ends[ERRORS][1]},
        };

        pid_t pid = launch->apart ? apart_fork(err) : fork();
        if (pid == 0)
                reaper_run(&fds, launch);
        return pid >= 0 || launch->apart ? pid : error_errno(err, errno, "fork");
}

static char **make_argv(const struct config_server *server)
{
        char **argv = calloc(server->n_args + 2, sizeof(char *));

        if (!argv)
                return NULL;
        argv[0] = server->command;
        for (size_t i = 0; i < server->n_args; i++)
                argv[i + 1] = server->args[i];
        return argv;
}

/* On failure upstream_free() ends what was started. */
static int start(struct upstream *u, struct pipes *p, const struct upstream_launch *launch,
                 struct error *err)
{
        pid_t pid = fork_reaper(p, launch, err);

        if (pid < 0)
                return pid;
        u->reaper = pid;
        u->pidfd = pidfd_open(pid, 0);
        if (u->pidfd < 0)
                return error_errno(err, errno, "pidfd_open");
        return launch->apart ? apart_map(pid, err) : 0;
}

int upstream_start(const struct config_server *server, const struct upstream_user *user,
                   int passed_fd, struct upstream **ret, int fds[3], struct error *err)
{
        _cleanup_(pipes_done) struct pipes p;

        memset(&p, 0xff, sizeof(p)); /* all are -1 */
        if (!server->command)
                return error_set(err, EINVAL, "%s is not a stdio server", server->name);
        int r = pipes_open(&p, user, err);
        if (r < 0)
                return r;
        struct upstream *u = calloc(1, sizeof(*u));
        char **argv = make_argv(server);
        char **env = upstream_env_new(environ, user, server->env, server->n_env);
        if (u && argv && env) {
                *u = (struct upstream){.pidfd = -1,
                                       .life = take_fd(p.ends[LIFE][1]),
                                       .report = take_fd(p.ends[REPORT][0]),
                                       .result = take_fd(p.ends[RESULT][0])};
                const struct upstream_launch launch = {
                        .argv = argv,
                        .env = env,
                        .cwd = server->cwd,
                        .user = user,
                        .passed_fd = passed_fd,
                        .apart = server->apart,
                };
                r = start(u, &p, &launch, err);
        } else {
                r = error_errno(err, ENOMEM, "start");
                free(u);
                u = NULL;
        }
        free(argv);
        upstream_env_free(env);
        if (r < 0) {
                upstream_free(u);
                return r;
        }
        fds[0] = take_fd(p.ends[INPUT][1]);
        fds[1] = take_fd(p.ends[OUTPUT][0]);
        fds[2] = take_fd(p.ends[ERRORS][0]);
        *ret = u;
        return 0;
}

pid_t upstream_pid(const struct upstream *upstream)
{
        return upstream->reaper;
}

int upstream_pidfd(const struct upstream *upstream)
{
        return upstream->pidfd;
}

int upstream_exec_fd(const struct upstream *upstream)
{
        return upstream->result;
}

static bool is_readable(int fd, int timeout_ms)
{
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        int r;

        do {
                r = poll(&polled, 1, timeout_ms);
        } while (r < 0 && errno == EINTR);
        return r > 0;
}

/* The exec closes the pipe; a process that fails before writes a struct error. */
static void read_result(struct upstream *u)
{
        struct error failure = {0};

        if (!is_readable(u->result, 0)) {
                error_set(&u->exec_error, ETIMEDOUT, "exec took more than %d s",
                          UPSTREAM_EXEC_SECONDS);
                return;
        }
        ssize_t n = fd_read_full(u->result, &failure, sizeof(failure));
        if (n == (ssize_t)sizeof(failure)) {
                error_sanitize(&failure);
                u->exec_error = failure;
        }
        if (n != 0 && !error_is_set(&u->exec_error))
                error_set(&u->exec_error, EIO, "the reaper failed before the exec");
}

int upstream_exec_result(struct upstream *upstream, struct error *err)
{
        if (upstream->result >= 0) {
                read_result(upstream);
                close(take_fd(upstream->result));
        }
        if (!error_is_set(&upstream->exec_error))
                return 0;
        if (err)
                *err = upstream->exec_error;
        return -upstream->exec_error.code;
}

/* Fails only when the reaper has ended. */
static void command(const struct upstream *u, enum reaper_command what)
{
        (void)send(u->life, &(char){(char)what}, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void upstream_release(struct upstream *upstream)
{
        command(upstream, REAPER_START);
}

void upstream_stop(struct upstream *upstream)
{
        command(upstream, REAPER_STOP);
}

void upstream_kill(struct upstream *upstream)
{
        command(upstream, REAPER_KILL);
}

int upstream_reap(struct upstream *upstream)
{
        int32_t status;
        int reaper_status = -1;

        if (upstream->reaper > 0) {
                while (waitpid(upstream->reaper, &reaper_status, 0) < 0 && errno == EINTR)
                        ;
                upstream->reaper = 0;
        }
        /* A reaper that was killed itself has written nothing: its own wait status is returned. */
        if (fd_read_full(upstream->report, &status, sizeof(status)) == (ssize_t)sizeof(status))
                return status;
        return reaper_status;
}

struct upstream *upstream_free(struct upstream *upstream)
{
        if (!upstream)
                return NULL;
        if (upstream->reaper > 0) {
                upstream_kill(upstream);
                /* With a process in an uninterruptible sleep the reaper outlives us; it ends when
                 * that process does. */
                if (upstream->pidfd < 0 || is_readable(upstream->pidfd, FREE_TIMEOUT_MS))
                        (void)upstream_reap(upstream);
        }
        cleanup_close(&upstream->life);
        cleanup_close(&upstream->pidfd);
        cleanup_close(&upstream->report);
        cleanup_close(&upstream->result);
        free(upstream);
        return NULL;
}
