/* Runs a program of an untrusted root file system. */
#include "rootfs/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

enum { UID = 1000, SECONDS = 20, PROCESSES = 64, FILES = 256 };

#define MEMORY ((rlim_t)2 << 30)

static _Noreturn void fail(const char *what)
{
        dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
        _exit(126);
}

static void write_file(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
                fail(path);
        close(fd);
}

/* Maps a uid other than 0, so that the exec drops all capabilities. */
static void enter_namespaces(uid_t uid, gid_t gid)
{
        char map[64];

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                    CLONE_NEWPID) < 0)
                fail("namespaces (see 'cloister doctor')");
        /* Uid 0 of the machine is mapped nowhere: without a map it is the overflow uid, which is sufficient.
         */
        if (uid == 0)
                return;
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "%d %u 1", UID, uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof(map), "%d %u 1", UID, gid);
        write_file("/proc/self/gid_map", map);
}

/* Makes the directory the read-only root by pivot_root; nothing else is mounted then. */
static void enter_root(const char *root)
{
        struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                                    MOUNT_ATTR_NODEV};

        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(root, root, NULL, MS_BIND, NULL) < 0 ||
            syscall(SYS_mount_setattr, AT_FDCWD, root, 0, &attributes, sizeof(attributes)) < 0)
                fail("mount its root");
        if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
            umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
                fail("enter its root");
}

static void set_bounds(void)
{
        const struct {
                int resource;
                rlim_t most;
        } bounds[] = {{RLIMIT_AS, MEMORY},       {RLIMIT_CPU, SECONDS}, {RLIMIT_NOFILE, FILES},
                      {RLIMIT_NPROC, PROCESSES}, {RLIMIT_FSIZE, 0},     {RLIMIT_CORE, 0}};

        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
                struct rlimit limit = {bounds[i].most, bounds[i].most};
                if (setrlimit((__rlimit_resource_t)bounds[i].resource, &limit) < 0)
                        fail("bounds");
        }
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                fail("no_new_privs");
}

static _Noreturn void inside(const char *root, const char *const argv[], const int streams[2])
{
        static char *const environment[] = {(char *)"PATH=/usr/local/bin:/usr/bin:/bin",
                                            (char *)"LC_ALL=C.UTF-8", (char *)"HOME=/", NULL};

        enter_root(root);
        set_bounds();
        if (dup2(streams[0], STDOUT_FILENO) < 0 || dup2(streams[1], STDERR_FILENO) < 0)
                _exit(126);
        close(STDIN_FILENO);
        fd_close_range(3, ~0U);
        execve(argv[0], (char *const *)argv, environment);
        dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
}

struct confined {
        const char *root;
        const char *const *argv;
};

/* The process between the builder and PID 1 of the namespace: ends with the builder, and PID 1 ends
 * with it. */
static _Noreturn void reaper(const void *data, pid_t parent, const int streams[2])
{
        const struct confined *what = data;
        uid_t uid = geteuid();
        gid_t gid = getegid();
        int status = 0;

        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(streams[1], STDERR_FILENO) < 0)
                _exit(126);
        enter_namespaces(uid, gid);
        pid_t pid = fork();
        if (pid < 0)
                fail("fork");
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                inside(what->root, what->argv, streams);
        }
        close(streams[0]);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

int confine_start(const char *root, const char *const argv[], struct process *ret,
                  struct error *err)
{
        return process_fork(reaper, &(struct confined){root, argv}, ret, err);
}
