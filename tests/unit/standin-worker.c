/*
 * Stands in for cloister-worker in test-template: a static program that serves as a template and,
 * as a worker, does what the one byte on its channel says.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sandbox-init/setup/template.h"

static void nothing(void)
{
}

static void copy_file(const char *path)
{
        char text[8192];
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

        if (n > 0)
                (void)!write(1, text, (size_t)n);
        else
                printf("%s: %m\n", path);
}

/* Only the template runs this, at its start. */
static int null_inputs;

static int is_null(int fd)
{
        struct stat st;

        return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static int work(int channel)
{
        char order;

        if (read(channel, &order, 1) != 1)
                return 9;
        switch (order) {
        case 's': /* what the kernel reports about this process */
                printf("pid %d ppid %d uid %d gid %d channel %d\n", getpid(), getppid(), getuid(),
                       getgid(), channel);
                printf("template has null: %d\n", null_inputs);
                fflush(stdout);
                copy_file("/proc/self/status");
                copy_file("/proc/self/mountinfo");
                copy_file("/proc/self/limits");
                copy_file("/proc/self/oom_score_adj");
                copy_file("/proc/1/environ");
                copy_file("/proc/1/cgroup");
                copy_file("/proc/self/cgroup");
                copy_file("/proc/sys/user/max_user_namespaces");
                printf("stdout opens: %d\n", open("/dev/stdout", O_WRONLY) >= 0);
                printf("workspace writes: %d\n",
                       open("/workspace/x", O_CREAT | O_WRONLY, 0600) >= 0);
                printf("image writes: %d\n", open("/x", O_CREAT | O_WRONLY, 0600) >= 0);
                fflush(stdout);
                return 0;
        case 'x':
                return 7;
        case 'k':
                raise(SIGSEGV);
                return 1;
        case 'm': /* more memory than the limit */
                for (;;) {
                        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                        if (p == MAP_FAILED)
                                return 8;
                        memset(p, 1, 1 << 20);
                }
        default:
                pause();
                return 0;
        }
}

int main(int argc, char **argv)
{
        static const struct template_hooks hooks = {nothing, nothing, nothing};
        struct template_session session;
        struct error error = {};

        null_inputs = is_null(0) && is_null(1);
        if (argc > 0 && strcmp(argv[0], "/silent") == 0)
                pause();
        if (template_ready(&error) < 0)
                return 1;
        int r = template_serve(&hooks, &session, &error);
        char byte;
        if (r == 1 && read(session.release_fd, &byte, 1) != 1)
                _exit(9);
        if (r == 1)
                _exit(work(session.rpc_fd));
        return r < 0;
}
