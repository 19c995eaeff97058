/* Threads that are held, and made again in a fork (sandbox-init/worker/threads.h). */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-init/raw.h"
#include "sandbox-init/worker/threads.h"
#include "tests/unit/test.h"

enum { POOL = 40, TRIES = 200, PATIENCE_US = 20000, HOLD_US = 200000, ANSWERS_US = 1000 };

static int64_t clock_us(clockid_t clock)
{
        struct timespec t;

        check(clock_gettime(clock, &t) == 0);
        return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

/* Holds the threads and lets them go. Returns what threads_hold() has returned. */
static long hold(void)
{
        raw_signals all = ~0ULL, before;

        raw_signal_mask(SIG_SETMASK, &all, &before);
        long r = threads_hold();
        threads_release();
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        return r;
}

/* ---- a pool ---- */

static sem_t work;
static atomic_int done, wrong, ends, is_computing;
static atomic_long ids[POOL];

static void *serve(void *data)
{
        atomic_long *id = data;
        char name[16], now[16];
        void *list, *list_now;
        size_t size;

        snprintf(name, sizeof(name), "pool-%d", (int)(id - ids));
        prctl(PR_SET_NAME, name);
        wrong += syscall(SYS_get_robust_list, 0, &list, &size) != 0 || !list;
        for (;;) {
                *id = syscall(SYS_gettid);
                while (sem_wait(&work) != 0)
                        wrong += errno != EINTR;
                prctl(PR_GET_NAME, now);
                wrong += strcmp(now, name) != 0;
                wrong += pthread_kill(pthread_self(), 0) != 0;
                wrong += syscall(SYS_get_robust_list, 0, &list_now, &size) != 0 || list_now != list;
                done++;
                if (ends)
                        return NULL;
        }
}

static void post(int n)
{
        done = 0;
        for (int i = 0; i < n; i++)
                check(sem_post(&work) == 0);
        for (int i = 0; i < 3000 && done < n; i++)
                usleep(10000);
        check_eq_int(done, n);
        check_eq_int(wrong, 0);
}

static void begin(pthread_t *threads, int n)
{
        ends = done = 0;
        check(sem_init(&work, 0, 0) == 0);
        for (int i = 0; i < n; i++)
                check(pthread_create(&threads[i], NULL, serve, &ids[i]) == 0);
}

static void end(pthread_t *threads, int n)
{
        ends = 1;
        post(n);
        for (int i = 0; i < n; i++)
                check(pthread_join(threads[i], NULL) == 0);
        check_eq_int(hold(), 0);
}

/* Another wait than for a futex ends with EINTR in the copy, once. */
static atomic_int ended_waits;

static void *wait_for_signals(void *data)
{
        do {
                wrong += pause() != -1 || errno != EINTR;
                ended_waits++;
        } while (!ends);
        return data;
}

static void ignore(int number)
{
}

/* In a fork: the process ends with 0 if all threads are back and work, twice. */
static void be_the_copy(const pthread_t *threads, int n)
{
        long before[POOL];

        check(threads_are_missing());
        for (int i = 0; i < n; i++)
                before[i] = ids[i];
        threads_note_locks();
        threads_return();
        check(!threads_are_missing());
        for (int i = 0; i < 3000 && ended_waits == 0; i++)
                usleep(10000);
        usleep(20000);
        check_eq_int(ended_waits, 1);
        /* Any of them may do the work of another. */
        for (int i = 0, posts = 0; i < n; posts++) {
                check(posts < 10000);
                post(n);
                while (i < n && ids[i] != before[i])
                        i++;
        }
        /* libc has the new ids. */
        for (int i = 0; i < n; i++)
                check_eq_int(pthread_kill(threads[i], 0), 0);
        _exit(0);
}

static void test_a_pool_comes_back(void)
{
        pthread_t threads[POOL], other;
        raw_signals all = ~0ULL, before;
        int status;

        check_eq_int(hold(), 0);
        begin(threads, POOL);
        check(pthread_create(&other, NULL, wait_for_signals, NULL) == 0);
        for (int i = 0; i < 20; i++) {
                raw_signal_mask(SIG_SETMASK, &all, &before);
                long held = 0;
                for (int tries = 0; tries < TRIES && held <= 0; tries++)
                        held = threads_hold();
                check_eq_int(held, POOL + 1);
                const pid_t pid = (pid_t)threads_fork();
                if (pid == 0) {
                        raw_signal_mask(SIG_SETMASK, &before, NULL);
                        be_the_copy(threads, POOL);
                }
                threads_release();
                check(!threads_are_missing());
                raw_signal_mask(SIG_SETMASK, &before, NULL);
                post(POOL);
                check_eq_int(ended_waits, 0);
                check(pid > 0 && waitpid(pid, &status, 0) == pid);
                check_eq_int(status, 0);
        }
        ends = 1;
        signal(SIGUSR2, ignore);
        while (ended_waits == 0) {
                pthread_kill(other, SIGUSR2);
                usleep(1000);
        }
        check(pthread_join(other, NULL) == 0);
        end(threads, POOL);
}

/* ---- a thread that cannot be held ---- */

static void *compute(void *data)
{
        atomic_long *id = data;

        *id = syscall(SYS_gettid);
        is_computing = 1;
        while (!ends)
                ;
        return NULL;
}

static void *wait_elsewhere(void *data)
{
        atomic_long *id = data;
        sigset_t set;
        int number;

        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        *id = syscall(SYS_gettid);
        is_computing = 1;
        sigwait(&set, &number);
        return NULL;
}

/* It is named after 20 ms of its own time. least: it took at least as long once; on a busy machine others take part. */
static void refuse(void *(*run)(void *), bool computes)
{
        pthread_t threads[2];
        clockid_t clock = CLOCK_MONOTONIC;
        int64_t least = INT64_MAX;

        begin(threads, 1);
        is_computing = 0;
        check(pthread_create(&threads[1], NULL, run, &ids[1]) == 0);
        while (!is_computing)
                usleep(1000);
        if (computes)
                check(pthread_getcpuclockid(threads[1], &clock) == 0);
        for (int i = 0; i < TRIES && least > PATIENCE_US + PATIENCE_US / 2; i++) {
                const int64_t from = clock_us(clock), since = clock_us(CLOCK_MONOTONIC);
                const long r = hold();
                const int64_t took = clock_us(clock) - from,
                              all = clock_us(CLOCK_MONOTONIC) - since;
                check(r < 0 && (r == -ids[1] || all > HOLD_US));
                check(took >= PATIENCE_US || all > HOLD_US);
                if (took < least)
                        least = took;
        }
        check(least <= PATIENCE_US + PATIENCE_US / 2);
        ends = 1;
        pthread_kill(threads[1], SIGUSR1);
        check(pthread_join(threads[1], NULL) == 0);
        end(threads, 1);
}

static void test_one_computes(void)
{
        refuse(compute, true);
}

static void test_one_waits_elsewhere(void)
{
        refuse(wait_elsewhere, false);
}

/* ---- a thread that waits for a futex ---- */

static atomic_int word;
static int command;

static void *wait_for_word(void *data)
{
        const int value = word;

        *(atomic_long *)data = syscall(SYS_gettid);
        is_computing = 1;
        while (word == value && !ends)
                syscall(SYS_futex, &word, command, value, NULL, NULL, 1);
        return NULL;
}

/* One of the given command, until main changes the word. Returns what threads_hold() has returned. */
static long hold_one_that_waits(int number)
{
        pthread_t thread;
        long r = 0;

        command = number;
        is_computing = ends = 0;
        check(pthread_create(&thread, NULL, wait_for_word, &ids[0]) == 0);
        while (!is_computing)
                usleep(1000);
        for (int i = 0; i < 10 && r != 1; i++)
                r = hold();
        check(r == 1 || r == -ids[0]);
        ends = 1;
        if (number == FUTEX_LOCK_PI)
                check(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0);
        word++;
        syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 1);
        syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 1);
        check(pthread_join(thread, NULL) == 0);
        return r;
}

/* Two waits for a futex begin again in a copy. Of others the word has a meaning for the kernel. */
static void test_waits_for_a_futex(void)
{
        check_eq_int(hold_one_that_waits(FUTEX_WAIT), 1);
        check_eq_int(hold_one_that_waits(FUTEX_WAIT_PRIVATE), 1);
        check_eq_int(hold_one_that_waits(FUTEX_WAIT_BITSET), 1);
        check_eq_int(hold_one_that_waits(FUTEX_WAIT_BITSET_PRIVATE), 1);
        word = (int)syscall(SYS_gettid);
        check(hold_one_that_waits(FUTEX_LOCK_PI) < 0);
        word = 0;
}

/* ---- a thread that blocks the signal, which libc lets no code do ---- */

/* For 60 ms; then it ends without having taken the signal. */
static void *block_and_end(void *data)
{
        const struct timespec time = {.tv_nsec = 60000000};
        atomic_long *id = data;
        raw_signals all = ~0ULL;

        raw_signal_mask(SIG_BLOCK, &all, NULL);
        *id = syscall(SYS_gettid);
        is_computing = 1;
        nanosleep(&time, NULL);
        return NULL;
}

/* It is named, or has ended and the others are held. No answer is awaited of it afterwards, for which a hold waits a millisecond. */
static void test_one_blocks_the_signal(void)
{
        pthread_t threads[2];
        int64_t least = INT64_MAX;
        int named = 0, ended = 0;

        begin(threads, 1);
        for (int i = 0; i < TRIES && (named == 0 || ended == 0); i++) {
                is_computing = 0;
                check(pthread_create(&threads[1], NULL, block_and_end, &ids[1]) == 0);
                while (!is_computing)
                        usleep(1000);
                for (int n = 0; n < 10; n++) {
                        const long r = hold();
                        named += r == -ids[1];
                        ended += r == 1;
                }
                check(pthread_join(threads[1], NULL) == 0);
        }
        check(named > 0 && ended > 0);
        for (int i = 0; i < TRIES; i++) {
                const int64_t since = clock_us(CLOCK_MONOTONIC);
                if (hold() == 1 && clock_us(CLOCK_MONOTONIC) - since < least)
                        least = clock_us(CLOCK_MONOTONIC) - since;
        }
        check(least < ANSWERS_US);
        end(threads, 1);
}

/* ---- a thread that waits soon, on a busy processor ---- */

static sem_t begins;
static int processor;

static void stay_on(int number)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(number, &set);
        check(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* Computes for 15 ms of its own time. */
static void *compute_and_wait(void *data)
{
        stay_on(processor);
        while (sem_wait(&begins) == 0 && !ends) {
                const int64_t since = clock_us(CLOCK_THREAD_CPUTIME_ID);
                is_computing = 1;
                while (clock_us(CLOCK_THREAD_CPUTIME_ID) - since < PATIENCE_US * 3 / 4)
                        ;
                is_computing = 0;
        }
        return data;
}

static void test_only_own_time_counts(void)
{
        const pid_t parent = getpid();
        int n = 0;
        pthread_t thread;

        processor = sched_getcpu();
        ends = is_computing = 0;
        const pid_t other = fork();
        if (other == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                stay_on(processor);
                while (getppid() == parent)
                        ;
                _exit(0);
        }
        check(other > 0 && sem_init(&begins, 0, 0) == 0);
        check(pthread_create(&thread, NULL, compute_and_wait, NULL) == 0);
        for (int i = 0; i < 10 * TRIES && n < 3; i++) {
                check(sem_post(&begins) == 0);
                while (!is_computing)
                        sched_yield();
                const int64_t since = clock_us(CLOCK_MONOTONIC);
                const long r = hold();
                const int64_t took = clock_us(CLOCK_MONOTONIC) - since;
                check(r == 1 || took > HOLD_US);
                n += r == 1 && took > PATIENCE_US + 2000;
                while (is_computing)
                        usleep(1000);
        }
        check_eq_int(n, 3);
        ends = 1;
        check(sem_post(&begins) == 0 && pthread_join(thread, NULL) == 0);
        check(kill(other, SIGKILL) == 0 && waitpid(other, NULL, 0) == other);
}

int main(void)
{
        const raw_signals ends_wait = 1ULL << (SIGUSR1 - 1);

        raw_signal_mask(SIG_BLOCK, &ends_wait, NULL);
        run(test_a_pool_comes_back);
        run(test_one_computes);
        run(test_one_waits_elsewhere);
        run(test_waits_for_a_futex);
        run(test_one_blocks_the_signal);
        run(test_only_own_time_counts);
        return 0;
}
