/* Creates the control socket and removes it. */
#include "supervisor/monitor/control-socket.h"

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
#include "base/path.h"

enum { BACKLOG = 64, ATTEMPTS = 3 };

/* Another user could have created it first, for example in /tmp. */
static int own_directory(const char *path, struct error *err)
{
        struct stat st;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return error_errno(err, errno, "create %s", path);
        if (lstat(path, &st) < 0)
                return error_errno(err, errno, "%s", path);
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
                return error_set(err, EPERM, "%s can be accessed by other users", path);
        return 0;
}

/* Returns the listening descriptor. */
static int listen_at(const char *path, struct error *err)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "socket");
        fd_refuse_rights(fd);
        memcpy(address.sun_path, path, strlen(path) + 1);
        mode_t mask = umask(0177);
        int r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
        umask(mask);
        if (r >= 0 && listen(fd, BACKLOG) < 0)
                r = -errno;
        return r < 0 ? error_errno(err, -r, "listen at %s", path) : take_fd(fd);
}

int control_socket_choose(struct control_socket *s, struct error *err)
{
        char directories[CONTROL_DIRECTORIES_MAX][CONTROL_DIRECTORY_SIZE];
        size_t n = control_directories(geteuid(), getenv("XDG_RUNTIME_DIR"), directories);
        int r = -ENOENT;

        *s = (struct control_socket){.fd = -1};
        for (size_t i = 0; i < n && r < 0; i++) {
                *err = (struct error){};
                r = own_directory(directories[i], err);
                if (r >= 0)
                        control_path(directories[i], getpid(), s->path);
        }
        return r;
}

int control_socket_open(struct control_socket *s, struct error *err)
{
        char directory[CONTROL_PATH_SIZE];
        int fd = -ENOENT;

        snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(s->path, '/') - s->path),
                 s->path);
        unlink(s->path);
        /* Another server that ends may remove the directory while it is empty. */
        for (int i = 0; i < ATTEMPTS && fd == -ENOENT; i++) {
                int r = own_directory(directory, err);
                if (r < 0)
                        return r;
                fd = listen_at(s->path, err);
        }
        if (fd < 0)
                return fd;
        s->fd = fd;
        return 0;
}

void control_socket_close(struct control_socket *s)
{
        if (s->fd >= 0)
                close(s->fd);
        s->fd = -1;
        if (*s->path)
                path_remove_with_directory(s->path);
        s->path[0] = '\0';
}
