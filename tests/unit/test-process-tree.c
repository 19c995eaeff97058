/* A process, its children of all threads, and the memory of all of them. */
#include "supervisor/monitor/process/process-tree.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

enum { SIZE = 32 << 20 };

/* Starts a process with this number of descendants, one below the other. Each writes a byte when it has its memory. */
static pid_t start(int ready, int descendants)
{
        pid_t pid = fork();

        check(pid >= 0);
        if (pid > 0)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (descendants > 0)
                start(ready, descendants - 1);
        char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
                _exit(1);
        memset(at, 1, SIZE);
        if (write(ready, "", 1) != 1)
                _exit(1);
        for (;;)
                pause();
}

static void test_memory(void)
{
        int ready[2];
        char byte;

        check_eq_int(pipe(ready), 0);
        pid_t alone = start(ready[1], 0), with_two = start(ready[1], 2);
        for (int i = 0; i < 4; i++)
                check_eq_int(read(ready[0], &byte, 1), 1);
        uint64_t one = process_tree_memory(alone), three = process_tree_memory(with_two);
        check(one >= SIZE && one < 2 * (uint64_t)SIZE);
        check(three >= 3 * (uint64_t)SIZE && three < 4 * (uint64_t)SIZE);
        pid_t pids[3] = {7};
        check_eq_int((long)process_children(getpid(), pids, 1, 3), 3);
        check_eq_int(pids[0], 7);
        check_eq_int(pids[1], alone);
        check_eq_int(pids[2], with_two);
        check_eq_int((long)process_children(getpid(), pids, 0, 1), 1);
        kill(alone, SIGKILL);
        kill(with_two, SIGKILL);
        check_eq_int(waitpid(alone, NULL, 0), alone);
        check_eq_int(waitpid(with_two, NULL, 0), with_two);
        check_eq_int((long)process_tree_memory(alone), 0);
        close(ready[0]);
        close(ready[1]);
}

static void *start_one(void *data)
{
        int *fds = data;
        char byte;

        fds[2] = start(fds[1], 0);
        check_eq_int(read(fds[0], &byte, 1), 1);
        pid_t pid;
        check_eq_int((long)process_children(getpid(), &pid, 0, 1), 1);
        check_eq_int(pid, fds[2]);
        kill(pid, SIGKILL);
        check_eq_int(waitpid(pid, NULL, 0), pid);
        return NULL;
}

static void test_child_of_a_thread(void)
{
        int fds[3];
        pthread_t thread;

        check_eq_int(pipe(fds), 0);
        check_eq_int(pthread_create(&thread, NULL, start_one, fds), 0);
        check_eq_int(pthread_join(thread, NULL), 0);
        close(fds[0]);
        close(fds[1]);
}

int main(void)
{
        run(test_memory);
        run(test_child_of_a_thread);
        return 0;
}
