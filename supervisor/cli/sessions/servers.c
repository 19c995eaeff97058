/* Finds the running servers of this user, and talks to them. */
#include "supervisor/cli/sessions/servers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rpc/jsonrpc.h"
#include "supervisor/cli/command/command.h"

enum {
        PATIENCE_SECONDS = 5,
        ANSWER_SECONDS = 15,
        QUICK_US = 300000,
        READ_AT_ONCE = 256 * 1024,
        REQUEST_MAX = 2 * 1024 * 1024
};

void servers_done(struct servers *servers)
{
        for (size_t i = 0; i < servers->n; i++)
                yyjson_doc_free(servers->list[i].answer);
}

/* The directory of a service is another user's: the socket's mode says who may connect. */
static bool is_of_service(const char *path, const struct stat *st)
{
        char here[CONTROL_DIRECTORY_SIZE];
        bool named = strcmp(path, CONTROL_SERVICE_DIRECTORY) == 0 ||
                     (control_directory_of_service(here) && strcmp(path, here) == 0);

        return named && control_directory_is_sound(st);
}

/* Accepts only a directory of mode 0700 that we own, or that of a service: no other user can have put a socket there. */
static DIR *open_own(const char *path, struct servers *servers)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return NULL;
        if (fstat(fd, &st) < 0 ||
            (!control_directory_is_private(&st, geteuid()) && !is_of_service(path, &st))) {
                snprintf(servers->refused, sizeof(servers->refused), "%s", path);
                close(fd);
                return NULL;
        }
        return fdopendir(fd);
}

static void find_in(const char *directory, const char *only, struct servers *ret)
{
        DIR *dir = open_own(directory, ret);
        struct dirent *entry;

        while (dir && ret->n < SERVERS_MAX && (entry = readdir(dir))) {
                struct server *server = &ret->list[ret->n];
                server->pid = control_pid_of(entry->d_name);
                if (server->pid == 0 || (only && strtol(only, NULL, 10) != server->pid))
                        continue;
                control_path(directory, server->pid, server->path);
                /* Of a service that this user may not control. */
                if (faccessat(dirfd(dir), entry->d_name, W_OK, AT_EACCESS) < 0 && errno == EACCES)
                        continue;
                ret->n++;
        }
        if (dir)
                closedir(dir);
}

void servers_find(const char *only, struct servers *ret)
{
        char directories[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];
        size_t n = control_directories_here(directories);

        if (n < CONTROL_DIRECTORIES_MAX)
                snprintf(directories[n++], CONTROL_DIRECTORY_SIZE, CONTROL_SERVICE_DIRECTORY);
        for (size_t i = 0; i < n; i++) {
                bool twice = false;

                for (size_t k = 0; k < i; k++)
                        twice = twice || strcmp(directories[i], directories[k]) == 0;
                if (!twice)
                        find_in(directories[i], only, ret);
        }
}

int64_t json_number(yyjson_val *object, const char *key)
{
        int64_t n = 0;

        json_int64(yyjson_obj_get(object, key), &n);
        return n;
}

const char *json_text(yyjson_val *object, const char *key)
{
        const char *s = json_string(object, key, NULL);

        return s ? s : "";
}

yyjson_val *server_sessions(const struct server *server)
{
        return yyjson_obj_get(yyjson_obj_get(yyjson_doc_get_root(server->answer), "result"),
                              "sessions");
}

static bool server_has_session(const struct server *server, const char *name)
{
        size_t i, n;
        yyjson_val *session;

        yyjson_arr_foreach (server_sessions(server), i, n, session) {
                if (strcmp(json_text(session, "name"), name) == 0)
                        return true;
        }
        return false;
}

int servers_find_session(const struct servers *servers, const char *name, const struct server **ret,
                         struct error *err)
{
        *ret = NULL;
        for (size_t i = 0; i < servers->n; i++) {
                if (!server_has_session(&servers->list[i], name))
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

bool session_name_is_plain(const char *name)
{
        return *name && strlen(name) <= 129 &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-") ==
                       strlen(name);
}

/* ---- connections ---- */

static int open_link(struct server_link *ret, const char *path, struct timeval patience,
                     struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        *ret = (struct server_link){.fd = -1, .in = BUFFER_INIT(SERVER_ANSWER_MAX)};
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        snprintf(ret->path, sizeof(ret->path), "%s", path);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        int r = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        if (r == -EAGAIN)
                return error_set(err, EAGAIN, "the server at %s has too many clients: try again",
                                 path);
        if (r < 0)
                return error_errno(err, -r, "connect to %s", path);
        ret->fd = take_fd(fd);
        return 0;
}

int server_link_open(struct server_link *ret, const char *path, struct error *err)
{
        /* As long as a busy sandbox may take. */
        return open_link(ret, path, (struct timeval){.tv_sec = ANSWER_SECONDS}, err);
}

int server_link_open_quickly(struct server_link *ret, const char *path, struct error *err)
{
        return open_link(ret, path, (struct timeval){.tv_usec = QUICK_US}, err);
}

void server_link_close(struct server_link *link)
{
        if (link->fd >= 0)
                close(link->fd);
        link->fd = -1;
        buffer_done(&link->in);
}

int server_link_open_session(struct server_link *ret, const char *name, const char *only,
                             struct error *err)
{
        struct servers servers = {};
        const struct server *server;

        servers_find(only, &servers);
        if (only && servers.n == 0)
                return error_set(err, ENOENT, "no server of yours has the process id %s", only);
        servers_ask(&servers);
        int r = servers_find_session(&servers, name, &server, err);
        if (r >= 0)
                r = server_link_open(ret, server->path, err);
        servers_done(&servers);
        return r;
}

int server_link_send(struct server_link *link, const char *method, const struct buffer *params,
                     struct error *err)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(REQUEST_MAX);

        int r = jsonrpc_append_request(&line, ++link->id, method,
                                       params ? buffer_bytes(params) : "{}",
                                       params ? params->length : 2);
        if (r == -EMSGSIZE)
                return error_set(err, EMSGSIZE,
                                 "more than %d MiB: 'cloister cp' copies large files",
                                 REQUEST_MAX >> 20);
        if (r >= 0)
                r = fd_send_all(link->fd, buffer_bytes(&line), line.length);
        if (r == -EPIPE)
                return error_set(err, EPIPE, "the server at %s has ended", link->path);
        return r < 0 ? error_errno(err, -r, "the server at %s does not answer", link->path) : 0;
}

int server_link_notify(struct server_link *link, const char *method, const struct buffer *params)
{
        _cleanup_buffer_ struct buffer line = BUFFER_INIT(REQUEST_MAX);

        int r = jsonrpc_append_notification(&line, method, params ? buffer_bytes(params) : NULL,
                                            params ? params->length : 0);
        return r < 0 ? r : fd_send_all(link->fd, buffer_bytes(&line), line.length);
}

int server_link_take(struct server_link *link, yyjson_doc **ret, struct error *err)
{
        const char *bytes = buffer_bytes(&link->in);
        const char *end = link->in.length > 0 ? memchr(bytes, '\n', link->in.length) : NULL;

        if (!end)
                return 0;
        int r = json_parse(bytes, (size_t)(end - bytes), ret, err);
        if (r < 0)
                return error_context(err, "the server at %s", link->path);
        buffer_consume(&link->in, (size_t)(end - bytes) + 1);
        return 1;
}

int server_link_read(struct server_link *link, struct error *err)
{
        ssize_t n = buffer_read_fd(&link->in, link->fd, READ_AT_ONCE);

        if (n == -EINTR)
                return 0;
        if (n == 0)
                return error_set(err, EPIPE, "the server at %s has ended", link->path);
        return n < 0 ? error_errno(err, (int)-n, "the server at %s does not answer", link->path)
                     : 0;
}

yyjson_val *server_result(yyjson_doc *message, struct error *err)
{
        enum { NO_SESSION = -32001, BUSY = -32002, INVALID = -32602 };
        yyjson_val *root = yyjson_doc_get_root(message), *error = yyjson_obj_get(root, "error");
        const char *text = json_string(error, "message", NULL);
        int64_t code = json_number(error, "code");

        if (error || !yyjson_obj_get(root, "result"))
                error_set(err,
                          code == NO_SESSION ? ENOENT
                          : code == BUSY     ? EBUSY
                          : code == INVALID  ? EINVAL
                                             : EIO,
                          "%s", text ? text : "no answer");
        return error ? NULL : yyjson_obj_get(root, "result");
}

int server_link_ask(struct server_link *link, const char *method, const struct buffer *params,
                    yyjson_doc **ret, yyjson_val **result, struct error *err)
{
        _cleanup_json_ yyjson_doc *message = NULL;

        int r = server_link_send(link, method, params, err);
        while (r >= 0 && (r = server_link_take(link, &message, err)) == 0)
                r = server_link_read(link, err);
        if (r < 0)
                return r;
        *result = server_result(message, err);
        if (!*result)
                return -err->code;
        *ret = take_ptr(message);
        return 0;
}

void servers_ask(struct servers *servers)
{
        size_t n = 0;

        for (size_t i = 0; i < servers->n; i++) {
                struct server *server = &servers->list[i];
                struct server_link link;
                struct error err = {};
                yyjson_val *result;

                int r = open_link(&link, server->path, (struct timeval){.tv_sec = PATIENCE_SECONDS},
                                  &err);
                if (r >= 0)
                        r = server_link_ask(&link, "sessions/list", NULL, &server->answer, &result,
                                            &err);
                server_link_close(&link);
                if (r == -ECONNREFUSED)
                        unlink(server->path);
                else if (r < 0)
                        cli_fail(1, &err);
                if (r >= 0)
                        servers->list[n++] = *server;
        }
        servers->n = n;
}
