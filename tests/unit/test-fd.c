/* Descriptors: reading whole files, sealed memfds, messages with descriptors. */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

static int count_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        int n = 0;

        check(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n;
}

static void test_whole(void)
{
        char *data = NULL, back[20] = "";
        size_t n = 0;
        struct error err = {};
        int fds[2];

        check_eq_int(pipe2(fds, O_CLOEXEC), 0);
        check_eq_int(fd_write_all(fds[1], "0123456789", 10), 0);
        close(fds[1]);
        check_eq_int(fd_read_full(fds[0], back, 4), 4);
        check_ok(fd_read_whole(fds[0], 100, &data, &n, &err));
        check_eq_bytes(data, n, "456789");
        check_eq_int(data[n], 0);
        free(data);
        check_eq_int(fd_read_full(fds[0], back, 4), 0);
        close(fds[0]);
        check_eq_int(fd_write_all(-1, "x", 1), -EBADF);
}

static void test_whole_has_a_bound(void)
{
        static char content[100000];
        struct error err = {};
        char *data = NULL;
        size_t n = 0;

        memset(content, 'x', sizeof(content));
        int fd = fd_sealed("test", content, sizeof(content), &err);
        check_ok(fd);
        check_eq_int(fd_read_whole(fd, sizeof(content) - 1, &data, &n, &err), -EFBIG);
        check_has(err.text, "99999");
        check_eq_int(lseek(fd, 0, SEEK_SET), 0);
        check_ok(fd_read_whole(fd, sizeof(content), &data, &n, &err));
        check_eq_int(n, sizeof(content));
        free(data);
        close(fd);
}

static void check_sealed(int fd)
{
        check_eq_int(write(fd, "x", 1), -1);
        check_eq_int(ftruncate(fd, 0), -1);
        check_eq_int(ftruncate(fd, 100), -1);
        check(mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        check_eq_int(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
        check(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void test_sealed(void)
{
        struct error err = {};
        char back[8] = "";

        int fd = fd_sealed("test", "abc", 3, &err);
        check_ok(fd);
        check_sealed(fd);
        int copy = fd_sealed_copy("copy", fd, &err);
        check_ok(copy);
        check_sealed(copy);
        check_eq_int(fd_read_full(copy, back, sizeof(back)), 3);
        check_eq_str(back, "abc");
        close(fd);
        close(copy);
        check(fd_sealed_copy("none", -1, &err) < 0);
        check_has(err.text, "copy none");
        int large = memfd_create("large", MFD_CLOEXEC);
        check_eq_int(ftruncate(large, (64 << 20) + 1), 0);
        check_eq_int(fd_sealed_copy("large", large, &err), -EFBIG);
        close(large);
}

static void test_flags(void)
{
        int fds[2];

        check_eq_int(pipe(fds), 0);
        check_eq_int(fd_set_cloexec(fds[0], 1), 0);
        check(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
        check_eq_int(fd_set_cloexec(fds[0], 0), 0);
        check(!(fcntl(fds[0], F_GETFD) & FD_CLOEXEC));
        check_eq_int(fd_set_nonblocking(fds[0], 1), 0);
        check(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
        check_eq_int(fd_set_nonblocking(fds[0], 0), 0);
        check(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
        fd_close_many(fds, 2);
        check_eq_int(fds[0], -1);
        check_eq_int(fd_set_cloexec(999, 1), -EBADF);
}

static void test_messages(void)
{
        struct ucred creds;
        int pair[2], pipes[2], got[4], one = 1;
        size_t count = 4;
        char text[8];

        check_eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        check_eq_int(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)), 0);
        check_eq_int(pipe2(pipes, O_CLOEXEC), 0);
        int before = count_fds();
        check_eq_int(fd_send(pair[0], "hello", 5, pipes, 2, 0), 0);
        check_eq_int(fd_receive(pair[1], text, sizeof(text), got, &count, &creds, 0), 5);
        check_eq_int(count, 2);
        check_eq_int(creds.pid, getpid());
        check(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
        fd_close_many(got, count);
        check_eq_int(count_fds(), before);

        /* More descriptors than there is room for: none stays open. */
        check_eq_int(fd_send(pair[0], "x", 1, pipes, 2, 0), 0);
        count = 1;
        check_eq_int(fd_receive(pair[1], text, sizeof(text), got, &count, NULL, 0), -EPROTO);
        check_eq_int(count_fds(), before);
        check_eq_int(fd_send(pair[0], "x", 1, pipes, 2, 0), 0);
        check_eq_int(fd_receive(pair[1], text, sizeof(text), NULL, NULL, NULL, 0), -EPROTO);
        check_eq_int(count_fds(), before);

        /* A truncated message. */
        count = 4;
        check_eq_int(fd_send(pair[0], "too long a text", 15, pipes, 1, 0), 0);
        check_eq_int(fd_receive(pair[1], text, sizeof(text), got, &count, NULL, 0), -EPROTO);
        check_eq_int(count_fds(), before);

        check_eq_int(fd_send(pair[0], "x", 1, pipes, FD_MESSAGE_MAX + 1, 0), -E2BIG);
        count = 4;
        check_eq_int(fd_receive(pair[1], text, sizeof(text), got, &count, NULL, MSG_DONTWAIT),
                     -EAGAIN);
        close(pair[0]);
        count = 4;
        check_eq_int(fd_receive(pair[1], text, sizeof(text), got, &count, NULL, 0), 0);
        check_eq_int(fd_send(pair[1], "x", 1, NULL, 0, 0), -EPIPE);
        close(pair[1]);
        fd_close_many(pipes, 2);
}

/* Descriptors that have each other's numbers are swapped, and no other one is left. */
static void test_arranges(void)
{
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
                int a[2], b[2];
                char byte = 0;
                if (pipe(a) < 0 || pipe(b) < 0 || dup2(a[0], 1) < 0 || dup2(b[1], 0) < 0)
                        _exit(1);
                bool sent = write(a[1], "a", 1) == 1;
                int fds[] = {1, 0};
                if (!sent || fd_arrange(fds, 2) < 0 || read(0, &byte, 1) != 1 || byte != 'a' ||
                    (fcntl(1, F_GETFL) & O_ACCMODE) != O_WRONLY)
                        _exit(2);
                for (int fd = 2; fd < 200; fd++)
                        if (fcntl(fd, F_GETFD) >= 0)
                                _exit(3);
                int none[] = {0, -1};
                _exit(fd_arrange(none, 2) == -EBADF ? 0 : 4);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        check_eq_int(status, 0);
}

int main(void)
{
        run(test_whole);
        run(test_whole_has_a_bound);
        run(test_sealed);
        run(test_flags);
        run(test_messages);
        run(test_arranges);
        return 0;
}
