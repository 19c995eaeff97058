/* Descriptors: whole reads and writes, sealed memfds, messages that carry descriptors. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

enum { COPY_MAX = 64 * 1024 * 1024, FDS_MAX = 1 << 20 };

int fd_write_all(int fd, const void *data, size_t n)
{
        const char *p = data;

        while (n > 0) {
                ssize_t done = write(fd, p, n);
                if (done < 0 && errno == EINTR)
                        continue;
                if (done < 0)
                        return -errno;
                p += done;
                n -= (size_t)done;
        }
        return 0;
}

int fd_send_all(int socket, const void *data, size_t n)
{
        const char *p = data;

        while (n > 0) {
                ssize_t sent = send(socket, p, n, MSG_NOSIGNAL);
                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0)
                        return -errno;
                p += sent;
                n -= (size_t)sent;
        }
        return 0;
}

ssize_t fd_read_full(int fd, void *data, size_t n)
{
        char *p = data;
        size_t have = 0;

        while (have < n) {
                ssize_t got = read(fd, p + have, n - have);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -errno;
                if (got == 0)
                        break;
                have += (size_t)got;
        }
        return (ssize_t)have;
}

int fd_read_whole(int fd, size_t most, char **ret, size_t *ret_length, struct error *err)
{
        _cleanup_free_ char *data = NULL;
        size_t length = 0, size = 0;

        for (;;) {
                if (size - length < 2) {
                        size = size ? size * 2 : 16 * 1024;
                        if (size > most + 2)
                                size = most + 2;
                        char *more = realloc(data, size);
                        if (!more)
                                return error_errno(err, ENOMEM, "read");
                        data = more;
                }
                ssize_t n = fd_read_full(fd, data + length, size - length - 1);
                if (n < 0)
                        return error_errno(err, (int)-n, "read");
                length += (size_t)n;
                if (length > most)
                        return error_set(err, EFBIG, "larger than the limit of %zu bytes", most);
                if (n == 0 || length + 1 < size)
                        break;
        }
        data[length] = '\0';
        *ret = take_ptr(data);
        *ret_length = length;
        return 0;
}

static int new_memfd(const char *name)
{
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
        /* Kernels before 6.3 do not know MFD_EXEC and make every memfd executable. */
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd;
}

static int seal(int fd)
{
        int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

        if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC) == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0)
                return 0;
        return -errno;
}

int fd_sealed(const char *name, const void *data, size_t n, struct error *err)
{
        _cleanup_close_ int fd = new_memfd(name);
        if (fd < 0)
                return error_errno(err, errno, "memfd_create %s", name);
        int r = fd_write_all(fd, data, n);
        if (r < 0)
                return error_errno(err, -r, "memfd %s: write", name);
        if (lseek(fd, 0, SEEK_SET) < 0)
                return error_errno(err, errno, "memfd %s: lseek", name);
        r = seal(fd);
        return r < 0 ? error_errno(err, -r, "memfd %s: fcntl", name) : take_fd(fd);
}

int fd_sealed_copy(const char *name, int source, struct error *err)
{
        _cleanup_close_ int fd = new_memfd(name);
        ssize_t n = 1;

        if (fd < 0)
                return error_errno(err, errno, "memfd %s", name);
        for (size_t all = 0; n > 0 && all <= COPY_MAX; all += (size_t)n) {
                n = sendfile(fd, source, NULL, COPY_MAX);
                if (n < 0)
                        return error_errno(err, errno, "copy %s", name);
        }
        if (n > 0)
                return error_set(err, EFBIG, "copy %s: larger than %d bytes", name, COPY_MAX);
        int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : seal(fd);
        return r < 0 ? error_errno(err, -r, "memfd %s", name) : take_fd(fd);
}

static int set_flag(int fd, int get, int set, int flag, int on)
{
        int flags = fcntl(fd, get);
        if (flags < 0 || fcntl(fd, set, on ? flags | flag : flags & ~flag) < 0)
                return -errno;
        return 0;
}

DIR *fd_open_directory(int parent, const char *path)
{
        int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);

        if (!stream && fd >= 0)
                cleanup_close(&fd);
        return stream;
}

struct dirent *fd_next_entry(DIR *stream)
{
        struct dirent *d = readdir(stream);

        while (d && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0))
                d = readdir(stream);
        return d;
}

int fd_set_nonblocking(int fd, int on)
{
        return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, int on)
{
        return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

void fd_refuse_rights(int socket)
{
        int off = 0;

        setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

void fd_close_many(int *fds, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (fds[i] >= 0)
                        close(fds[i]);
                fds[i] = -1;
        }
}

int fd_send(int socket, const void *data, size_t n, const int *fds, size_t count, int flags)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * FD_MESSAGE_MAX)];
                struct cmsghdr align;
        } control = {};
        struct iovec part = {.iov_base = (void *)data, .iov_len = n};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (count > FD_MESSAGE_MAX)
                return -E2BIG;
        if (count > 0) {
                message.msg_control = control.bytes;
                message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * count);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
        }

        ssize_t sent;
        do
                sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
                return -errno;
        return (size_t)sent == n ? 0 : -EMSGSIZE;
}

/* Stores the descriptors of one control message; closes those that do not fit. */
static int take_fds(struct cmsghdr *c, int *fds, size_t room, size_t *taken)
{
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                if (*taken < room) {
                        fds[(*taken)++] = fd;
                        continue;
                }
                close(fd);
                r = -EPROTO;
        }
        return r;
}

ssize_t fd_receive(int socket, void *data, size_t n, int *fds, size_t *count, struct ucred *creds,
                   int flags)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int) * FD_MESSAGE_MAX) +
                           CMSG_SPACE(sizeof(struct ucred))];
                struct cmsghdr align;
        } control;
        struct iovec part = {.iov_base = data, .iov_len = n};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        size_t room = count ? *count : 0, taken = 0;
        int r = 0;

        if (count)
                *count = 0;
        if (creds)
                *creds = (struct ucred){};
        ssize_t got;
        do
                got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
        while (got < 0 && errno == EINTR);
        if (got < 0)
                return -errno;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
                if (c->cmsg_level != SOL_SOCKET)
                        continue;
                if (c->cmsg_type == SCM_RIGHTS && take_fds(c, fds, room, &taken) < 0)
                        r = -EPROTO;
                if (c->cmsg_type == SCM_CREDENTIALS && creds)
                        memcpy(creds, CMSG_DATA(c), sizeof(*creds));
        }
        if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
                r = -EPROTO;
        /* To the caller, an empty message is the end. */
        if (r < 0 || got == 0) {
                fd_close_many(fds, taken);
                return r;
        }
        if (count)
                *count = taken;
        return got;
}

/* An entry of a directory, as getdents64(2) writes it. */
struct entry {
        uint64_t inode;
        int64_t next;
        unsigned short length;
        unsigned char type;
        char name[];
};

/* The number that a name of /proc/self/fd is; "." and "..": -1. */
static long number_of(const char *name)
{
        long n = 0;

        for (; *name; name++) {
                if (*name < '0' || *name > '9')
                        return -1;
                n = n * 10 + *name - '0';
        }
        return n;
}

int fd_each(void (*visit)(int fd, const void *data), const void *data)
{
        _Alignas(struct entry) char entries[2048];
        long n;

        int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (list < 0)
                return -errno;
        while ((n = syscall(SYS_getdents64, list, entries, sizeof(entries))) > 0) {
                for (long at = 0; at < n;) {
                        const struct entry *e = (const struct entry *)(entries + at);
                        long fd = number_of(e->name);
                        if (fd >= 0 && fd != list)
                                visit((int)fd, data);
                        at += e->length;
                }
        }
        int r = n < 0 ? -errno : 0;
        close(list);
        return r;
}

struct range {
        unsigned int first, last;
};

static void close_one(int fd, const void *data)
{
        const struct range *range = data;

        if ((unsigned int)fd >= range->first && (unsigned int)fd <= range->last)
                close(fd);
}

/* Without /proc, as in the broker's root: no number is above the limit of a process that never
 * lowered it. */
static void close_each(unsigned int first, unsigned int last)
{
        struct rlimit files = {.rlim_max = FDS_MAX};

        syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &files);
        if (files.rlim_max > FDS_MAX)
                files.rlim_max = FDS_MAX;
        for (unsigned int fd = first; fd <= last && fd < files.rlim_max; fd++)
                close((int)fd);
}

int fd_close_range(unsigned int first, unsigned int last)
{
        if (first > last)
                return 0;
        if (syscall(SYS_close_range, first, last, 0) < 0 &&
            fd_each(close_one, &(struct range){first, last}) < 0)
                close_each(first, last);
        return 0;
}

int fd_arrange(int *fds, size_t n)
{
        enum { HIGH_FD = 100 };

        /* High numbers first, so that none overwrites another. */
        for (size_t i = 0; i < n; i++) {
                fds[i] = fcntl(fds[i], F_DUPFD, HIGH_FD);
                if (fds[i] < 0)
                        return -errno;
        }
        for (size_t i = 0; i < n; i++) {
                if (dup2(fds[i], (int)i) < 0)
                        return -errno;
        }
        return fd_close_range((unsigned int)n, ~0U);
}

int fd_open_standard_streams(void)
{
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd < 0) {
                int r = -errno;
                dprintf(STDERR_FILENO, "cloister: open /dev/null: %s\n", strerror(-r));
                return r;
        }
        close(fd);
        return 0;
}
