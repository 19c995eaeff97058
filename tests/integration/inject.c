/*
 * Makes one system call of one process fail: a test of what happens then.
 *
 *     inject ROLE INDEX ERRNO PROGRAM ARG…     starts the program and traces all of its processes
 *
 * ROLE names a traced process: "0" is the program, "0.2" the third process that it creates, "0.2.0" the first one of
 * that process. So the name does not depend on which process comes first. INDEX counts the system calls of that
 * process, from 0. The call is replaced by one without effect, read(-1), and returns -ERRNO. With ERRNO 0 the process
 * is killed at that call instead (SIGKILL); with -1 it hangs there. "hit NUMBER" tells that it has happened. With
 * ROLE "-" nothing fails, and each call is printed as "ROLE INDEX NUMBER". The first line is "program PID". Threads
 * count as processes. The exit status is the program's, or 128 plus its signal.
 *
 * Only the process in question stops at its system calls, and only until then: all others run at their own pace.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
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
        ROLE_SIZE = 64,
        TICK_US = 200000,
        WAIT_TICKS = 3,
        OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                  PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL
};

static struct traced {
        pid_t pid;
        char role[ROLE_SIZE]; /* empty: the event of its parent has not come yet */
        int calls, children;
        int waits; /* for its name, in ticks */
        bool is_ended, is_hit, hangs;
} all[TRACED_MAX];
static int n_all;
static const char *role;
static int call_index, error_number;
static bool is_done; /* it has been hit, and its call has returned */

static struct traced *find(pid_t pid)
{
        for (int i = n_all - 1; i >= 0; i--) {
                if (all[i].pid == pid && !all[i].is_ended)
                        return &all[i];
        }
        if (n_all == TRACED_MAX)
                exit(3);
        all[n_all].pid = pid;
        return &all[n_all++];
}

/* An orphan ends twice: as a traced process and as a child of ours. */
static void forget(pid_t pid)
{
        for (int i = n_all - 1; i >= 0; i--) {
                if (all[i].pid == pid)
                        all[i].is_ended = true;
        }
}

static bool records(void)
{
        return strcmp(role, "-") == 0;
}

/* Lets a stopped process continue, up to its next system call if that matters. */
static void proceed(const struct traced *t, int signal)
{
        bool watched = records() || (!is_done && strcmp(t->role, role) == 0);

        if (!t->hangs)
                ptrace(watched ? PTRACE_SYSCALL : PTRACE_CONT, t->pid, NULL, signal);
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

static void on_entry(struct traced *t, unsigned long long number)
{
        int n = t->calls++;

        if (records())
                printf("%s %d %llu\n", t->role, n, number);
        if (strcmp(t->role, role) != 0 || n != call_index)
                return;
        printf("hit %llu\n", number);
        fflush(stdout);
        is_done = error_number <= 0;
        t->hangs = error_number < 0;
        t->is_hit = error_number > 0;
        if (error_number == 0)
                kill(t->pid, SIGKILL);
        else if (error_number > 0)
                replace(t->pid);
}

static void on_syscall(struct traced *t)
{
        struct __ptrace_syscall_info info;

        if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) < 0)
                return;
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                on_entry(t, info.entry.nr);
        } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && t->is_hit) {
                t->is_hit = false;
                is_done = true;
                set_result(t->pid);
        }
}

/* The child may have stopped before its parent's event came: it waited for its name. */
static void on_child(struct traced *parent)
{
        unsigned long pid = 0;

        if (ptrace(PTRACE_GETEVENTMSG, parent->pid, NULL, &pid) < 0)
                return;
        struct traced *child = find((pid_t)pid);
        snprintf(child->role, sizeof(child->role), "%.50s.%d", parent->role, parent->children++);
        if (child->waits > 0)
                proceed(child, 0);
        child->waits = 0;
}

static bool is_fault(int signal)
{
        return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

static void on_stop(pid_t pid, int status)
{
        struct traced *t = find(pid);
        int signal = WSTOPSIG(status), event = status >> 16;

        if (signal == (SIGTRAP | 0x80)) {
                on_syscall(t);
                proceed(t, 0);
        } else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK ||
                   event == PTRACE_EVENT_VFORK) {
                on_child(t);
                proceed(t, 0);
        } else if (event != 0) {
                t->waits = *t->role == '\0' ? 1 : 0;
                if (t->waits == 0)
                        proceed(t, 0);
        } else if (is_fault(signal)) {
                /* The kernel does not let a fault kill the first process of a pid namespace that is
                 * traced (force_sig_info_to_task): it would fault forever. */
                ptrace(PTRACE_DETACH, pid, NULL, NULL);
        } else {
                proceed(t, signal);
        }
}

/* A parent that was killed in the middle of a clone has no event: its child continues without a name. */
static void release_waiting(void)
{
        for (int i = 0; i < n_all; i++) {
                if (all[i].waits == 0 || all[i].is_ended || all[i].waits++ < WAIT_TICKS)
                        continue;
                all[i].waits = 0;
                snprintf(all[i].role, sizeof(all[i].role), "?");
                proceed(&all[i], 0);
        }
}

static int trace(pid_t first)
{
        int result = 0;

        for (;;) {
                int status;
                pid_t pid = waitpid(-1, &status, __WALL);
                if (pid < 0 && errno != EINTR)
                        return result;
                if (pid < 0) {
                        release_waiting();
                } else if (WIFSTOPPED(status)) {
                        on_stop(pid, status);
                } else {
                        forget(pid);
                        if (pid == first)
                                result = WIFEXITED(status) ? WEXITSTATUS(status)
                                                           : 128 + WTERMSIG(status);
                }
        }
}

static void on_tick(int signal)
{
        (void)signal;
}

static void start_ticks(void)
{
        struct itimerval every = {{.tv_usec = TICK_US}, {.tv_usec = TICK_US}};
        struct sigaction action = {.sa_handler = on_tick};

        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &every, NULL);
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
        if (argc < 5)
                return 2;
        /* Orphans are reaped here: the first process of a pid namespace ends after all others were. */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        role = argv[1];
        call_index = atoi(argv[2]);
        error_number = atoi(argv[3]);
        pid_t pid = start(argv + 4);
        snprintf(find(pid)->role, ROLE_SIZE, "0");
        if (ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS) < 0 ||
            ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) {
                perror("inject");
                return 3;
        }
        kill(pid, SIGCONT);
        printf("program %d\n", (int)pid);
        fflush(stdout);
        start_ticks();
        return trace(pid);
}
#endif
