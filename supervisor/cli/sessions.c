/* `cloister sessions`: asks the running servers of this user over their control sockets. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/printable.h"
#include "policy/control-path.h"
#include "supervisor/cli/commands.h"

enum {
        SERVERS_MAX = 256,
        ANSWER_MAX = 32 * 1024 * 1024,
        PATIENCE_SECONDS = 5,
        STATE_WIDTH = 17,
        PROFILE_WIDTH = 8,
};

struct server {
        pid_t pid;
        char path[CONTROL_PATH_SIZE];
        yyjson_doc *answer; /* response to sessions/list, or NULL */
};

struct servers {
        struct server list[SERVERS_MAX];
        size_t n;
};

static void servers_done(struct servers *servers)
{
        for (size_t i = 0; i < servers->n; i++)
                yyjson_doc_free(servers->list[i].answer);
}

/* Accepts only a directory of mode 0700 that we own: nobody else can have put a socket there. */
static DIR *open_own(const char *path)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return NULL;
        if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077)) {
                close(fd);
                return NULL;
        }
        return fdopendir(fd);
}

static void find_in(const char *directory, const char *only, struct servers *ret)
{
        DIR *dir = open_own(directory);
        struct dirent *entry;

        while (dir && ret->n < SERVERS_MAX && (entry = readdir(dir))) {
                struct server *server = &ret->list[ret->n];
                server->pid = control_pid_of(entry->d_name);
                if (server->pid == 0 || (only && strtol(only, NULL, 10) != server->pid))
                        continue;
                control_path(directory, server->pid, server->path);
                ret->n++;
        }
        if (dir)
                closedir(dir);
}

static void find_servers(const char *only, struct servers *ret)
{
        char directories[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];
        size_t n = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), directories);

        for (size_t i = 0; i < n; i++) {
                bool twice = false;

                for (size_t k = 0; k < i; k++)
                        twice = twice || strcmp(directories[i], directories[k]) == 0;
                if (!twice)
                        find_in(directories[i], only, ret);
        }
}

/* -ECONNREFUSED: the server is gone. */
static int connect_to(const char *path, struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "connect to %s", path);
        return take_fd(fd);
}

static int read_line(int fd, struct buffer *to)
{
        char bytes[64 * 1024];

        while (to->length == 0 || buffer_bytes(to)[to->length - 1] != '\n') {
                ssize_t n = read(fd, bytes, sizeof(bytes));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EPIPE;
                int r = buffer_append(to, bytes, (size_t)n);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Sends one request. *ret is the response, which has a result. */
static int ask(const char *path, const char *method, const char *name, yyjson_doc **ret,
               struct error *err)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(ANSWER_MAX);
        _cleanup_json_ yyjson_doc *doc = NULL;
        char request[256];

        _cleanup_close_ int fd = connect_to(path, err);
        if (fd < 0)
                return fd;
        int n = snprintf(request, sizeof(request),
                         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s%s}}\n",
                         method, name ? "\"name\":\"" : "", name ? name : "", name ? "\"" : "");
        int r = fd_write_all(fd, request, (size_t)n);
        if (r >= 0)
                r = read_line(fd, &line);
        if (r < 0)
                return error_errno(err, -r, "the server at %s does not answer", path);
        r = json_parse(buffer_bytes(&line), line.length, &doc, err);
        if (r < 0)
                return error_context(err, "the server at %s", path);
        yyjson_val *root = yyjson_doc_get_root(doc);
        const char *message = json_string(yyjson_obj_get(root, "error"), "message", NULL);
        if (message || !yyjson_obj_get(root, "result"))
                return error_set(err, ENOENT, "%s", message ? message : "no answer");
        *ret = take_ptr(doc);
        return 0;
}

/* Asks each server; removes the socket of a killed one. */
static void ask_all(struct servers *servers)
{
        size_t n = 0;

        for (size_t i = 0; i < servers->n; i++) {
                struct server *server = &servers->list[i];
                struct error err = {};
                int r = ask(server->path, "sessions/list", NULL, &server->answer, &err);

                if (r == -ECONNREFUSED)
                        unlink(server->path);
                else if (r < 0 && r != -ENOENT)
                        cli_fail(1, &err);
                if (r >= 0)
                        servers->list[n++] = *server;
        }
        servers->n = n;
}

static yyjson_val *sessions_of(const struct server *server)
{
        return yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(server->answer), "result"),
                              "sessions");
}

static int64_t number(yyjson_val *object, const char *key)
{
        int64_t n = 0;

        json_int64(yyjson_obj_get(object, key), &n);
        return n;
}

static const char *text(yyjson_val *object, const char *key)
{
        const char *s = json_string(object, key, NULL);

        return s ? s : "";
}

/* A duration for a column: 850ms, 12s, 5m, 3h, 2d. */
static const char *short_time(int64_t ms, char to[16])
{
        static const struct {
                int64_t ms;
                const char *unit;
        } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};

        for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
                /* A larger unit from two on: "90m" is more precise than "1h". */
                if (ms >= 2 * units[i].ms || (i == ARRAY_SIZE(units) - 1 && ms >= units[i].ms)) {
                        snprintf(to, 16, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
                        return to;
                }
        }
        snprintf(to, 16, "%" PRId64 "ms", ms);
        return to;
}

static void print_session(const struct server *server, yyjson_val *session, int width, bool colour)
{
        char age[16], idle[16] = "-", took[16], name[128], profile[128], state[32], end[32];
        yyjson_val *last = yyjson_obj_get(session, "last");
        const char *status = text(last, "status"), *code = text(last, "code");
        bool bad = *status && strcmp(status, "ok") != 0;

        /* The words of a broker, which may be broken. */
        printable_escape(name, sizeof(name), text(session, "name"));
        printable_escape(profile, sizeof(profile), text(session, "profile"));
        printable_escape(state, sizeof(state), text(session, "state"));
        printable_escape(end, sizeof(end), status);

        if (yyjson_obj_get(session, "idle_ms"))
                short_time(number(session, "idle_ms"), idle);
        printf("%-*s %-*s %7d %6s %6s %6" PRId64 "M %5" PRId64 "  %-*s", width, name, PROFILE_WIDTH,
               profile, (int)server->pid, short_time(number(session, "age_ms"), age), idle,
               number(session, "memory_bytes") / (1024 * 1024), number(session, "cells"),
               STATE_WIDTH, state);
        if (last) {
                printf("  %s%s%s %s: ", bad && colour ? "\033[31m" : "", *status ? end : "since",
                       bad && colour ? "\033[0m" : "",
                       short_time(number(last, "duration_ms"), took));
                printable_print(stdout, code); /* of an agent */
        }
        putchar('\n');
}

static void print_table(const struct servers *servers)
{
        bool colour = isatty(STDOUT_FILENO) == 1 && !getenv("NO_COLOR");
        int width = 7;
        size_t i, n;
        yyjson_val *session;

        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (sessions_of(&servers->list[k]), i, n, session) {
                        int length = (int)strlen(text(session, "name"));
                        width = length > width ? length : width;
                }
        printf("%-*s %-*s %7s %6s %6s %7s %5s  %-*s  %s\n", width, "SESSION", PROFILE_WIDTH,
               "PROFILE", "SERVER", "AGE", "IDLE", "MEMORY", "CALLS", STATE_WIDTH, "STATE", "LAST");
        for (size_t k = 0; k < servers->n; k++)
                yyjson_arr_foreach (sessions_of(&servers->list[k]), i, n, session)
                        print_session(&servers->list[k], session, width, colour);
}

static int print_json(const struct servers *servers)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(ANSWER_MAX);
        int r = buffer_append(&b, "[", 1);

        for (size_t i = 0; i < servers->n && r >= 0; i++) {
                yyjson_val *result = yyjson_obj_get(yyjson_doc_get_root(servers->list[i].answer),
                                                    "result");
                r = buffer_printf(&b,
                                  "%s{\"server\": %d, \"sessions_max\": %" PRId64
                                  ", \"ready\": %" PRId64 ", \"sessions\": ",
                                  i > 0 ? ",\n " : "", (int)servers->list[i].pid,
                                  number(result, "sessions_max"), number(result, "ready"));
                if (r >= 0)
                        r = json_append(&b, sessions_of(&servers->list[i]));
                if (r >= 0)
                        r = buffer_append(&b, "}", 1);
        }
        if (r >= 0)
                r = buffer_append(&b, "]\n", 2);
        _cleanup_buffer_ struct buffer shown = BUFFER_INIT(2 * ANSWER_MAX);
        if (r >= 0)
                r = printable_json(&shown, buffer_bytes(&b), b.length);
        if (r >= 0 && fwrite(buffer_bytes(&shown), 1, shown.length, stdout) != shown.length)
                r = -EIO;
        return r;
}

static size_t count(const struct servers *servers)
{
        size_t n = 0;

        for (size_t i = 0; i < servers->n; i++)
                n += yyjson_arr_size(sessions_of(&servers->list[i]));
        return n;
}

int cli_sessions(const struct cli_options *o, const char *const *words, size_t n)
{
        struct servers servers = {};
        struct error err = {};
        int status = 0;

        find_servers(o->server, &servers);
        ask_all(&servers);
        if (o->server && servers.n == 0) {
                error_set(&err, ENOENT, "no server of yours has the process id %s", o->server);
                status = cli_fail(1, &err);
        } else if (o->given & CLI_JSON) {
                int r = print_json(&servers);
                if (r < 0)
                        status = cli_fail(1, (error_errno(&err, -r, "list sessions"), &err));
        } else if (count(&servers) > 0) {
                print_table(&servers);
        } else {
                fprintf(stderr, "No live sessions (%zu %s running).\n", servers.n,
                        servers.n == 1 ? "server is" : "servers are");
        }
        servers_done(&servers);
        return status;
}

int cli_session_names(void)
{
        struct servers servers = {};
        size_t i, n;
        yyjson_val *session;

        find_servers(NULL, &servers);
        ask_all(&servers);
        for (size_t k = 0; k < servers.n; k++)
                yyjson_arr_foreach (sessions_of(&servers.list[k]), i, n, session) {
                        printable_print(stdout, text(session, "name"));
                        putchar('\n');
                }
        servers_done(&servers);
        return 0;
}

static bool has_session(const struct server *server, const char *name)
{
        size_t i, n;
        yyjson_val *session;

        yyjson_arr_foreach (sessions_of(server), i, n, session) {
                if (strcmp(text(session, "name"), name) == 0)
                        return true;
        }
        return false;
}

/* Finds the one server that has the session. */
static int find_session(const struct servers *servers, const char *name, const struct server **ret,
                        struct error *err)
{
        *ret = NULL;
        for (size_t i = 0; i < servers->n; i++) {
                if (!has_session(&servers->list[i], name))
                        continue;
                if (*ret)
                        return error_set(
                                err, EEXIST,
                                "the servers %d and %d both have a session '%s': say which with --server PID",
                                (int)(*ret)->pid, (int)servers->list[i].pid, name);
                *ret = &servers->list[i];
        }
        return *ret ? 0
                    : error_set(err, ENOENT,
                                "no live session is called '%s' (see 'cloister sessions')", name);
}

/* Accepts only characters that need no escaping in JSON. */
static bool name_is_plain(const char *name)
{
        return *name && strlen(name) <= 129 &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-") ==
                       strlen(name);
}

static int command(const struct cli_options *o, const char *const *words, size_t n,
                   const char *method)
{
        struct servers servers = {};
        const struct server *server;
        _cleanup_json_ yyjson_doc *answer = NULL;
        struct error err = {};

        if (n == 0 || !name_is_plain(words[0])) {
                error_set(&err, EINVAL,
                          "the NAME of a session is needed (see 'cloister sessions')");
                return cli_fail(2, &err);
        }
        find_servers(o->server, &servers);
        ask_all(&servers);
        int r = find_session(&servers, words[0], &server, &err);
        if (r >= 0)
                r = ask(server->path, method, words[0], &answer, &err);
        servers_done(&servers);
        return r < 0 ? cli_fail(1, &err) : 0;
}

int cli_sessions_end(const struct cli_options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/end");
}

int cli_sessions_reset(const struct cli_options *o, const char *const *words, size_t n)
{
        return command(o, words, n, "sessions/reset");
}
