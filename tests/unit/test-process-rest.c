/* Whether processes have run: real ones, to which a directory of links leads. */
#include "supervisor/monitor/process/process-memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/test.h"

enum { THREADS = 64 };

static char folder[] = "/tmp/cloister-test-XXXXXX";
static int proc;

static void link_process(pid_t pid)
{
        char name[16], to[32];

        snprintf(name, sizeof(name), "%d", (int)pid);
        snprintf(to, sizeof(to), "/proc/%d", (int)pid);
        check_eq_int(symlinkat(to, proc, name), 0);
}

static void unlink_process(pid_t pid)
{
        char name[16];

        snprintf(name, sizeof(name), "%d", (int)pid);
        check_eq_int(unlinkat(proc, name, 0), 0);
        kill(pid, SIGKILL);
        check_eq_int(waitpid(pid, NULL, 0), pid);
}

static uint64_t rest(void)
{
        check(lseek(proc, 0, SEEK_SET) == 0);
        return process_rest(proc);
}

/* Waits until the process sleeps. Returns its rest, 0 if it does not sleep within 10 s. */
static uint64_t first_rest(void)
{
        uint64_t now = 0, before;

        for (int i = 0; i < 1000; i++) {
                before = now;
                now = rest();
                if (now != 0 && now == before)
                        return now;
                usleep(10000);
        }
        return 0;
}

static void on_signal(int number)
{
        (void)number;
}

static void *sleep_for_ever(void *data)
{
        for (;;)
                pause();
        return data;
}

static pid_t sleeper(int threads)
{
        fflush(NULL);
        pid_t pid = fork();

        if (pid == 0) {
                pthread_t thread;
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                signal(SIGUSR1, on_signal);
                for (int i = 0; i < threads; i++)
                        pthread_create(&thread, NULL, sleep_for_ever, NULL);
                sleep_for_ever(NULL);
        }
        check(pid > 0);
        link_process(pid);
        return pid;
}

static void test_a_process_that_runs(void)
{
        pid_t one = sleeper(1), two;

        uint64_t before = first_rest();
        check(before != 0);
        usleep(50000);
        check(rest() == before);
        kill(one, SIGUSR1);
        uint64_t after = first_rest();
        check(after != 0 && after != before);
        two = sleeper(0);
        uint64_t both = first_rest();
        check(both != 0 && both != after);
        unlink_process(two);
        check(first_rest() == after);
        unlink_process(one);
}

static void test_one_that_runs_now(void)
{
        fflush(NULL);
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;)
                        ;
        }
        link_process(pid);
        for (int i = 0; i < 20; i++) {
                check(rest() == 0);
                usleep(5000);
        }
        unlink_process(pid);
}

static void test_too_many_threads(void)
{
        pid_t pid = sleeper(THREADS);

        for (int i = 0; i < 20; i++) {
                usleep(10000);
                check(i < 10 || rest() == 0);
        }
        unlink_process(pid);
}

int main(void)
{
        check(mkdtemp(folder) != NULL);
        proc = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(proc >= 0);
        run(test_a_process_that_runs);
        run(test_one_that_runs_now);
        run(test_too_many_threads);
        check_eq_int(rmdir(folder), 0);
        return 0;
}
