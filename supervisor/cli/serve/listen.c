/* Opens listening sockets. */
#include "supervisor/cli/serve/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { BACKLOG = 1024, FIRST_PASSED = 3 };

/* Enough for all kinds. */
union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
};

static bool is_loopback(const union address *a)
{
        if (a->any.sa_family == AF_INET)
                return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
        return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static int describe(struct listener *l, struct error *err)
{
        char host[64], port[16];
        union address a = {};
        socklen_t n = sizeof(a);

        if (getsockname(l->fd, &a.any, &n) < 0)
                return error_errno(err, errno, "listen");
        if (a.any.sa_family == AF_UNIX) {
                l->guarded = l->is_unix = true;
                snprintf(l->text, sizeof(l->text), "unix:%.*s", (int)sizeof(a.local.sun_path),
                         a.local.sun_path);
                return 0;
        }
        if (getnameinfo(&a.any, n, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return error_set(err, EAFNOSUPPORT, "listen: neither an IP nor a unix socket");
        bool v6 = a.any.sa_family == AF_INET6;
        l->guarded = is_loopback(&a);
        snprintf(l->text, sizeof(l->text), "http://%s%s%s:%s/mcp", v6 ? "[" : "", host,
                 v6 ? "]" : "", port);
        return 0;
}

/* Removes a socket file that a server has left. */
static void remove_stale(const struct sockaddr_un *address)
{
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct stat st;

        if (fd >= 0 && lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
            connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
            errno == ECONNREFUSED)
                unlink(address->sun_path);
}

static int open_unix(const char *path, struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (path[0] != '/' || strlen(path) >= sizeof(address.sun_path))
                return error_set(err, EINVAL,
                                 "an absolute path of at most %zu characters is needed",
                                 sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        remove_stale(&address);
        mode_t mask = umask(0177);
        int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        umask(mask);
        return r < 0 ? error_errno(err, -r, "bind") : take_fd(fd);
}

/* TCP_NODELAY is inherited by connections. */
static int open_tcp(const char *spec, struct error *err)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
        struct addrinfo *found = NULL;
        const char *colon = strrchr(spec, ':'), *begin = spec + (*spec == '[');
        const int on = 1;
        char host[256];

        if (!colon || colon == spec || !colon[1] ||
            strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535)
                return error_set(err, EINVAL, "HOST:PORT or unix:PATH is needed");
        snprintf(host, sizeof(host), "%.*s", (int)(colon - begin - (*spec == '[')), begin);
        int code = getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, colon + 1,
                               &hints, &found);
        if (code != 0)
                return error_set(err, EINVAL, "%s", gai_strerror(code));
        _cleanup_close_ int fd = socket(found->ai_family,
                                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0)
                setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (fd >= 0)
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        int r = fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 ? -errno : 0;
        freeaddrinfo(found);
        if (r == -EADDRINUSE)
                return error_set(
                        err, EADDRINUSE,
                        "the port is in use: end the program that has it, or choose another");
        return r < 0 ? error_errno(err, -r, "bind") : take_fd(fd);
}

int listen_open(const char *spec, struct listener *ret, struct error *err)
{
        bool local = strncmp(spec, "unix:", 5) == 0;
        _cleanup_close_ int fd = local ? open_unix(spec + 5, err) : open_tcp(spec, err);

        int r = fd < 0 ? fd : 0;
        if (r >= 0 && listen(fd, BACKLOG) < 0)
                r = error_errno(err, errno, "listen");
        *ret = (struct listener){.fd = fd};
        if (r >= 0)
                r = describe(ret, err);
        if (r < 0)
                return error_context(err, "--listen %s", spec);
        ret->fd = take_fd(fd);
        return 0;
}

static int take_one(int fd, struct listener *ret, struct error *err)
{
        int listening = 0;
        socklen_t n = sizeof(listening);

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) < 0 || !listening)
                return error_set(err, EINVAL,
                                 "descriptor %d of LISTEN_FDS is not a listening socket", fd);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        *ret = (struct listener){.fd = fd};
        return describe(ret, err);
}

int listen_inherit(struct listener ret[LISTEN_MAX], struct error *err)
{
        const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
        int n = fds && pid && atol(pid) == (long)getpid() && atoi(fds) > 0 ? atoi(fds) : 0;

        unsetenv("LISTEN_PID");
        unsetenv("LISTEN_FDS");
        unsetenv("LISTEN_FDNAMES");
        if (n > LISTEN_MAX)
                return error_set(err, E2BIG, "at most %d sockets are taken of LISTEN_FDS",
                                 LISTEN_MAX);
        for (int i = 0; i < n; i++) {
                int r = take_one(FIRST_PASSED + i, &ret[i], err);
                if (r < 0)
                        return r;
        }
        return n;
}
