/* The namespaces of a template. */
#include "bench/namespaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void die(const char *what)
{
        fprintf(stderr, "namespaces: %s: %s\n", what, strerror(errno));
        _exit(1);
}

void namespaces_write(int dir, const char *path, const char *text)
{
        int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, text, strlen(text)) < 0)
                die(path);
        close(fd);
}

void namespaces_map_ids(unsigned inside, unsigned uid, unsigned gid)
{
        char map[48];

        namespaces_write(AT_FDCWD, "/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "%u %u 1", inside, uid);
        namespaces_write(AT_FDCWD, "/proc/self/uid_map", map);
        snprintf(map, sizeof(map), "%u %u 1", inside, gid);
        namespaces_write(AT_FDCWD, "/proc/self/gid_map", map);
}

void namespaces_enter(void)
{
        unsigned uid = geteuid(), gid = getegid();
        int status;

        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET |
                    CLONE_NEWUTS) < 0)
                die("unshare");
        namespaces_map_ids(0, uid, gid);
        pid_t pid = fork();
        if (pid < 0)
                die("fork");
        if (pid > 0) {
                waitpid(pid, &status, 0);
                _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        }
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                die("make mounts private");
}
