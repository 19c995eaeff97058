/*
 * The kernel's own time for a new process, without and with namespaces.
 *
 *     floor-clone ROUNDS      {"fork": [ns, ...], "clone3": [ns, ...]}, each to the child's end
 *
 * clone3 makes user, pid, mount, net, ipc, uts and cgroup namespaces and nothing in them. The two
 * alternate. "clone3" is null where the kernel refuses.
 */
#include <inttypes.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds from the call to the child's end, 0 if the call failed. */
static uint64_t child(uint64_t flags)
{
        struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
        uint64_t begin = now();
        pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

        if (pid == 0)
                _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid)
                return 0;
        return now() - begin;
}

static void print(const char *name, const uint64_t *ns, size_t count)
{
        printf("\"%s\": ", name);
        if (ns[0] == 0) {
                printf("null");
                return;
        }
        for (size_t i = 0; i < count; i++)
                printf("%s%" PRIu64, i ? "," : "[", ns[i]);
        printf("]");
}

int main(int argc, char **argv)
{
        const uint64_t seven = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
                               CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
        size_t count = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
        _cleanup_free_ uint64_t *plain = calloc(count + 1, sizeof(*plain));
        _cleanup_free_ uint64_t *apart = calloc(count + 1, sizeof(*apart));

        if (count < 1 || count > 100000 || !plain || !apart) {
                fprintf(stderr, "usage: floor-clone ROUNDS (1 to 100000)\n");
                return 2;
        }
        for (size_t i = 0; i < count; i++) {
                plain[i] = child(0);
                apart[i] = child(seven);
        }
        printf("{");
        print("fork", plain, count);
        printf(", ");
        print("clone3", apart, count);
        printf("}\n");
        return 0;
}
