/*
 * Makes one system call of one process fail: a test of what happens then.
 *
 *     inject attach PID ROLE INDEX ERRNO           traces PID and what it creates, until stdin ends
 *     inject run ROLE INDEX ERRNO PROGRAM ARG…     starts the program and traces all of its processes
 *
 * ROLE counts the traced processes in the order of their creation, from 0; INDEX the system calls of that process, from
 * 0. The call is replaced by one without effect, read(-1), and returns -ERRNO. With ROLE -1 nothing fails, and each
 * call is printed as "ROLE INDEX NUMBER". ERRNO 0 kills the process at that call instead (SIGKILL). "hit NUMBER" tells
 * that it has happened. ERRNO -1 lets the process hang there. Threads count as processes.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void)
{
        return 77;
}
#else

enum {
        TRACED_MAX = 4096,
        OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                  PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC
};

static struct traced {
        pid_t pid;
        int calls;
        bool is_hit, hangs;
} all[TRACED_MAX];
static int n_all;
static int role, call_index, error_number;

static int role_of(pid_t pid)
{
        for (int i = n_all - 1; i >= 0; i--) {
                if (all[i].pid == pid)
                        return i;
        }
        if (n_all == TRACED_MAX)
                exit(3);
        all[n_all].pid = pid;
        return n_all++;
}

static void replace(pid_t pid)
{
        struct user_regs_struct registers;

        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) < 0)
                return;
        registers.orig_rax = SYS_read;
        registers.rdi = (unsigned long)-1;
        ptrace(PTRACE_SETREGS, pid, NULL, &registers);
}

static void set_result(pid_t pid)
{
        struct user_regs_struct registers;

        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) < 0)
                return;
        registers.rax = (unsigned long)-error_number;
        ptrace(PTRACE_SETREGS, pid, NULL, &registers);
}

static void on_syscall(pid_t pid)
{
        struct __ptrace_syscall_info info;
        int which = role_of(pid);
        struct traced *t = &all[which];

        if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) < 0)
                return;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                int n = t->calls++;
                if (role < 0)
                        printf("%d %d %llu\n", which, n, (unsigned long long)info.entry.nr);
                if (which != role || n != call_index)
                        return;
                printf("hit %llu\n", (unsigned long long)info.entry.nr);
                fflush(stdout);
                if (error_number == 0)
                        kill(pid, SIGKILL);
                t->hangs = error_number < 0;
                if (error_number <= 0)
                        return;
                t->is_hit = true;
                replace(pid);
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->is_hit) {
                t->is_hit = false;
                set_result(pid);
        }
}

/* The signal that the process gets when it goes on. */
static int on_stop(pid_t pid, int status)
{
        int signal = WSTOPSIG(status), event = status >> 16;

        if (signal == (SIGTRAP | 0x80)) {
                on_syscall(pid);
                return 0;
        }
        if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK ||
            event == PTRACE_EVENT_VFORK) {
                unsigned long child = 0;
                if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child) == 0)
                        role_of((pid_t)child);
                return 0;
        }
        if (event != 0) {
                role_of(pid);
                return 0;
        }
        return signal;
}

static void detach_all(void)
{
        for (int i = 0; i < n_all; i++)
                ptrace(PTRACE_INTERRUPT, all[i].pid, NULL, NULL);
        for (int tries = 0; tries < 200; tries++) {
                int status;
                pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
                if (pid < 0)
                        break;
                if (pid == 0) {
                        usleep(1000);
                        continue;
                }
                if (!WIFSTOPPED(status))
                        continue;
                int signal = on_stop(pid, status);
                ptrace(PTRACE_DETACH, pid, NULL, signal);
        }
}

static bool stdin_ended(void)
{
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        char byte;

        return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static int trace(pid_t first, bool attached)
{
        int result = 0;

        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, __WALL | (attached ? WNOHANG : 0));
                if (pid < 0)
                        return result;
                if (pid == 0) {
                        if (stdin_ended()) {
                                detach_all();
                                return 0;
                        }
                        usleep(200);
                        continue;
                }
                if (!WIFSTOPPED(status)) {
                        if (pid == first)
                                result = WIFEXITED(status) ? WEXITSTATUS(status)
                                                           : 128 + WTERMSIG(status);
                        continue;
                }
                int signal = on_stop(pid, status);
                if (!all[role_of(pid)].hangs)
                        ptrace(PTRACE_SYSCALL, pid, NULL, signal);
        }
}

static pid_t start(char **arguments)
{
        pid_t pid = fork();

        if (pid == 0) {
                raise(SIGSTOP);
                execv(arguments[0], arguments);
                _exit(127);
        }
        waitpid(pid, NULL, WUNTRACED);
        return pid;
}

int main(int argc, char **argv)
{
        bool attach = argc == 6 && strcmp(argv[1], "attach") == 0;
        bool run = argc >= 6 && strcmp(argv[1], "run") == 0;
        char **numbers = argv + (attach ? 3 : 2);

        if (!attach && !run)
                return 2;
        role = atoi(numbers[0]);
        call_index = atoi(numbers[1]);
        error_number = atoi(numbers[2]);
        pid_t pid = attach ? atoi(argv[2]) : start(argv + 5);
        role_of(pid);
        if (ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS) < 0 ||
            ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
                perror("inject");
                return 3;
        }
        if (run)
                kill(pid, SIGCONT);
        else
                puts("ready");
        fflush(stdout);
        return trace(pid, attach);
}
#endif
