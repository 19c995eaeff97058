/* Descriptors, mount points and children where a filter around us refuses close_range(2), openat2(2) and
 * kill(2). */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mount.h"
#include "supervisor/monitor/process/child.h"
#include "tests/unit/test.h"

static void refuse(long call, unsigned int code)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)call, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

        check_eq_int(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        check_eq_int(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Runs fn in children without a filter, and with one for each error. */
static void check_with_each(long call, void (*fn)(void))
{
        static const unsigned int codes[] = {0, EPERM, ENOSYS, EINVAL};

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
                int status;
                pid_t pid = fork();
                if (pid == 0) {
                        if (codes[i])
                                refuse(call, codes[i]);
                        fn();
                        _exit(0);
                }
                check_eq_int(waitpid(pid, &status, 0), pid);
                check_eq_int(status, 0);
        }
}

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static void close_some(void)
{
        int at[] = {10, 11, 200, 201, 900};

        for (size_t i = 0; i < ARRAY_SIZE(at); i++)
                check_eq_int(dup2(0, at[i]), at[i]);
        check_eq_int(fd_close_range(11, 200), 0);
        check(is_open(10));
        check(!is_open(11));
        check(!is_open(200));
        check(is_open(201));
        check_eq_int(fd_close_range(3, ~0U), 0);
        check(!is_open(10));
        check(!is_open(201));
        check(!is_open(900));
        check(is_open(2));
        check_eq_int(fd_close_range(5, 4), 0);
}

static void test_close_range(void)
{
        check_with_each(SYS_close_range, close_some);
}

static char folder[] = "/tmp/test-without-calls-XXXXXX";

static void open_points(void)
{
        struct error err = {};
        _cleanup_close_ int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        _cleanup_close_ int dir = mount_point_open(root, "a/b", &err);
        _cleanup_close_ int file = mount_point_open(root, "a/b/file", &err);
        _cleanup_close_ int self = mount_point_open(root, ".", &err);

        check(dir >= 0 && file >= 0 && self >= 0);
        check(mount_point_open(root, "a/link/etc", &err) < 0);
        check_eq_int(mount_point_open(root, "../x", &err), -EXDEV);
        check_eq_int(mount_point_open(root, "a/../..", &err), -EXDEV);
        check_eq_int(mount_point_open(root, "/etc", &err), -EXDEV);
        check_eq_int(mount_point_open(root, "a/none", &err), -ENOENT);
        check_eq_int(mount_point_open(root, "a/b/file/x", &err), -ENOTDIR);
}

static void test_mount_points(void)
{
        check(mkdtemp(folder));
        _cleanup_close_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check_eq_int(mkdirat(dir, "a", 0755), 0);
        check_eq_int(mkdirat(dir, "a/b", 0755), 0);
        close(openat(dir, "a/b/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        check_eq_int(symlinkat("/", dir, "a/link"), 0);
        check_with_each(SYS_openat2, open_points);
        unlinkat(dir, "a/link", 0);
        unlinkat(dir, "a/b/file", 0);
        unlinkat(dir, "a/b", AT_REMOVEDIR);
        unlinkat(dir, "a", AT_REMOVEDIR);
        rmdir(folder);
}

static void end_a_child(void)
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                pause();
                _exit(0);
        }
        check_eq_int(child_signal(pid, SIGKILL), 0);
        check_eq_int(child_wait_in_time(pid, 5000, &status), 0);
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check(child_signal(pid, SIGKILL) < 0);
}

static void test_kill(void)
{
        check_with_each(SYS_kill, end_a_child);
}

int main(void)
{
        run(test_close_range);
        run(test_kill);
        run(test_mount_points);
        return 0;
}
