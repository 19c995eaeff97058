/* Which processes are killed when a sandbox is over its limit of memory. A directory with links to real
 * processes stands in for the sandbox's /proc, which a hostile template could have exchanged. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/template/sandbox-internal.h"
#include "supervisor/monitor/template/sandbox.h"
#include "tests/unit/test.h"

/* INIT and what follows it are in one pid namespace, STRANGER is not. STANDS_FOR_INIT gets the signal
 * that ends a sandbox, so that the others do not end with their namespace. */
enum { STANDS_FOR_INIT, STRANGER, INIT, WORKER, COPY, N };

static pid_t pids[N];

static pid_t sleeper(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                        pause();
        }
        check(pid > 0);
        return pid;
}

static bool has_ended(int i)
{
        siginfo_t info = {};

        check_eq_int(waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOHANG | WNOWAIT), 0);
        return info.si_pid != 0;
}

static void wait_for_end(int i)
{
        check_eq_int(waitid(P_PID, (id_t)pids[i], &(siginfo_t){}, WEXITED | WNOWAIT), 0);
}

/* Runs in a separate process, whose children are in a new namespace from INIT on. */
static void kill_in_a_namespace(void)
{
        char folder[] = "/tmp/cloister-test-XXXXXX";
        struct sandbox s = {.keep_serial = 1, .candidate.pid = COPY};

        for (int i = 0; i < N; i++) {
                /* All are in one user namespace, or the kernel would not let us look at STRANGER. */
                if (i == STANDS_FOR_INIT && unshare(CLONE_NEWUSER) < 0)
                        _exit(77);
                if (i == INIT)
                        check_eq_int(unshare(CLONE_NEWPID), 0);
                pids[i] = sleeper();
        }
        check(mkdtemp(folder) != NULL);
        s.memory.proc = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        check(s.memory.proc >= 0);
        /* The names are the pids inside; 1 is that of init. */
        for (int i = STRANGER; i < N; i++) {
                char name[16], to[32];
                snprintf(name, sizeof(name), "%d", i == INIT ? 1 : i == STRANGER ? N : i);
                snprintf(to, sizeof(to), "/proc/%d", (int)pids[i]);
                check_eq_int(symlinkat(to, s.memory.proc, name), 0);
        }
        s.pid = pids[INIT];
        s.pidfd = (int)syscall(SYS_pidfd_open, pids[STANDS_FOR_INIT], 0);
        check(s.pidfd >= 0);

        sandbox_kill_for_memory(&s, MONITOR_LIMIT_SESSION);
        wait_for_end(STANDS_FOR_INIT);
        wait_for_end(WORKER); /* the control: a process of init's namespace */
        usleep(50000);
        check(!has_ended(STRANGER));
        check(!has_ended(INIT));
        check(!has_ended(COPY));
        check(sandbox_is_out_of_memory(&s));
        for (int i = 1; i <= N; i++) {
                char name[16];
                snprintf(name, sizeof(name), "%d", i);
                unlinkat(s.memory.proc, name, 0);
        }
        check_eq_int(rmdir(folder), 0);
        close(s.pidfd);
        close(s.memory.proc);
}

static void test_only_its_own_processes(void)
{
        int status;

        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                kill_in_a_namespace();
                for (int i = 0; i < N; i++)
                        kill(pids[i], SIGKILL);
                _exit(0);
        }
        check_eq_int(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                printf("skipped: no user namespace\n");
        else
                check_eq_int(status, 0);
}

int main(void)
{
        run(test_only_its_own_processes);
        return 0;
}
