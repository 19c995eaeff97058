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
        long r = threads_hold(true);
        threads_release();
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        return r;
}

/* Holds all n threads. A busy machine may need more than one try. */
static void hold_all(long n)
{
        long held = 0;

        for (int i = 0; i < TRIES && held != n; i++)
                held = hold();
        check_eq_int(held, n);
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

static int64_t time_of(pthread_t thread)
{
        clockid_t clock;
        struct timespec t;

        check(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &t) == 0);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Holds this thread and n others until it does not run for that. */
static void settle(pthread_t thread, int n)
{
        int64_t before = -1;

        for (int i = 0; i < TRIES && time_of(thread) != before; i++) {
                usleep(1000);
                before = time_of(thread);
                hold_all(n + 1);
        }
        check(time_of(thread) == before);
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
        settle(threads[0], POOL);
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
                if (i % 2 == 0) /* then most are held in place */
                        hold();
                raw_signal_mask(SIG_SETMASK, &all, &before);
                long held = 0;
                for (int tries = 0; tries < TRIES && held <= 0; tries++)
                        held = threads_hold(true);
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

/* ---- threads that are held where they wait in the handler ---- */

static atomic_int n_handled, n_cleaned;
static sem_t other_work, gate;

static void handle(int number)
{
        n_handled++;
}

static void clean(void *data)
{
        n_cleaned++;
}

/* Ends when a signal has interrupted its wait. */
static void *wait_until_interrupted(void *data)
{
        pthread_cleanup_push(clean, NULL);
        while (sem_wait(&other_work) == 0)
                ;
        wrong += errno != EINTR;
        pthread_cleanup_pop(0);
        return data;
}

/* Returns what threads_release() has returned, when the thread was interrupted or cancelled meanwhile. */
static bool release_after(pthread_t thread, int n, bool cancel)
{
        raw_signals all = ~0ULL, before;

        raw_signal_mask(SIG_SETMASK, &all, &before);
        check_eq_int(threads_hold(true), n + 1);
        check((cancel ? pthread_cancel(thread) : pthread_kill(thread, SIGUSR2)) == 0);
        for (int i = 0; i < 3000 && n_handled + n_cleaned == 0; i++)
                usleep(1000);
        const bool r = threads_release();
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        return r;
}

/* A thread that runs while it is held in place is noticed. It can be interrupted and cancelled as everywhere. */
static void test_one_runs_in_place(void)
{
        const struct sigaction action = {.sa_handler = handle};
        pthread_t threads[2], other;
        void *result;

        check(sigaction(SIGUSR2, &action, NULL) == 0);
        check(sem_init(&other_work, 0, 0) == 0);
        begin(threads, 1);
        for (int i = 0; i < 10; i++) {
                const bool cancel = i % 2 == 1;
                n_handled = n_cleaned = 0;
                check(pthread_create(&other, NULL, wait_until_interrupted, NULL) == 0);
                settle(other, 1);
                check(!release_after(other, 1, cancel));
                check(pthread_join(other, &result) == 0);
                check((result == PTHREAD_CANCELED) == cancel);
                check_eq_int(n_handled, !cancel);
                check_eq_int(n_cleaned, cancel);
        }
        end(threads, 1);
}

static void *wait_once(void *data)
{
        wrong += sem_wait(&other_work) != 0;
        done++;
        return data;
}

static void handle_for_long(int number)
{
        n_handled++;
        while (sem_wait(&gate) != 0)
                ;
}

/* The calls in a handler are other calls than those in its place: then it is held by a signal. */
static void test_one_waits_in_a_handler(void)
{
        const struct sigaction action = {.sa_handler = handle_for_long, .sa_flags = SA_RESTART};
        pthread_t thread;

        check(sigaction(SIGUSR2, &action, NULL) == 0);
        check(sem_init(&other_work, 0, 0) == 0 && sem_init(&gate, 0, 0) == 0);
        n_handled = 0;
        check(pthread_create(&thread, NULL, wait_once, NULL) == 0);
        settle(thread, 0);
        check(pthread_kill(thread, SIGUSR2) == 0);
        while (n_handled == 0)
                usleep(1000);
        for (int i = 0; i < 3; i++) {
                hold_all(1);
                const int64_t before = time_of(thread);
                hold_all(1);
                check(time_of(thread) != before);
        }
        check(sem_post(&gate) == 0);
        settle(thread, 0);
        check(sem_post(&other_work) == 0 && pthread_join(thread, NULL) == 0);
        check_eq_int(wrong, 0);
}

/* It is woken while it is held, and does not run on. */
static void test_one_is_woken_in_place(void)
{
        raw_signals all = ~0ULL, before;
        pthread_t thread;

        check(sem_init(&other_work, 0, 0) == 0);
        done = 0;
        check(pthread_create(&thread, NULL, wait_once, NULL) == 0);
        settle(thread, 0);
        raw_signal_mask(SIG_SETMASK, &all, &before);
        check_eq_int(threads_hold(true), 1);
        const int64_t since = time_of(thread);
        check(sem_post(&other_work) == 0);
        while (time_of(thread) == since)
                usleep(1000);
        usleep(20000);
        check_eq_int(done, 0);
        check(!threads_release());
        raw_signal_mask(SIG_SETMASK, &before, NULL);
        check(pthread_join(thread, NULL) == 0);
        check_eq_int(done, 1);
}

/* Two pools, one after the other, have more threads than may be held at once. */
static void test_slots_are_used_again(void)
{
        pthread_t threads[POOL], stays[1];

        check(sem_init(&other_work, 0, 0) == 0);
        begin(stays, 1);
        for (int i = 0; i < 2; i++) {
                for (int n = 0; n < POOL; n++)
                        check(pthread_create(&threads[n], NULL, wait_once, NULL) == 0);
                settle(threads[0], POOL);
                for (int n = 0; n < POOL; n++)
                        check(sem_post(&other_work) == 0);
                for (int n = 0; n < POOL; n++)
                        check(pthread_join(threads[n], NULL) == 0);
        }
        end(stays, 1);
}

/* A branch is written from a fork that must not be given up: no thread is held in place then, and each holds is a signal's. */
static void test_none_is_held_in_place(void)
{
        pthread_t threads[1];
        raw_signals all = ~0ULL, before;

        begin(threads, 1);
        settle(threads[0], 0);
        const int64_t since = time_of(threads[0]);
        for (int i = 0; i < POOL; i++) {
                raw_signal_mask(SIG_SETMASK, &all, &before);
                check_eq_int(threads_hold(false), 1);
                check(threads_release());
                raw_signal_mask(SIG_SETMASK, &before, NULL);
        }
        check(time_of(threads[0]) != since);
        post(1);
        end(threads, 1);
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

/* The last but one has the signal when the last one, for which there is no room, ends the hold. Its pause() continues. */
static void test_a_refused_hold_interrupts_none(void)
{
        pthread_t threads[THREADS_MAX + 1];

        ends = ended_waits = wrong = 0;
        check(sem_init(&other_work, 0, 0) == 0);
        for (int i = 0; i <= THREADS_MAX; i++)
                check(pthread_create(&threads[i], NULL,
                                     i == THREADS_MAX - 1 ? wait_for_signals : wait_once,
                                     NULL) == 0);
        for (int i = 0; i < TRIES; i++)
                check(hold() < 0);
        usleep(20000);
        check_eq_int(ended_waits, 0);
        ends = 1;
        signal(SIGUSR2, ignore);
        while (ended_waits == 0) {
                pthread_kill(threads[THREADS_MAX - 1], SIGUSR2);
                usleep(1000);
        }
        for (int i = 0; i < THREADS_MAX; i++)
                check(sem_post(&other_work) == 0);
        for (int i = 0; i <= THREADS_MAX; i++)
                check(pthread_join(threads[i], NULL) == 0);
        check_eq_int(wrong, 0);
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

static void *wait_for_word_or_time(void *data)
{
        const struct timespec time = {.tv_sec = 1000};
        const int value = word;

        is_computing = 1;
        while (word == value) {
                if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &time, NULL, 0) < 0)
                        wrong += errno != EAGAIN;
        }
        return data;
}

/* A call that begins again inside the handler would wait for the whole time again, so each hold is a signal's: the thread runs for it. */
static void test_none_waits_in_place_with_a_timeout(void)
{
        pthread_t thread;

        is_computing = wrong = 0;
        check(pthread_create(&thread, NULL, wait_for_word_or_time, NULL) == 0);
        while (!is_computing)
                usleep(1000);
        hold_all(1);
        for (int i = 0; i < 10; i++) {
                usleep(20000);
                const int64_t since = time_of(thread);
                hold_all(1);
                check(time_of(thread) != since);
        }
        word++;
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        check(pthread_join(thread, NULL) == 0);
        check_eq_int(wrong, 0);
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
static atomic_int n_begun;
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
                n_begun++;
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
                const int before = n_begun;
                check(sem_post(&begins) == 0);
                while (n_begun == before)
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
        run(test_one_runs_in_place);
        run(test_one_waits_in_a_handler);
        run(test_one_is_woken_in_place);
        run(test_slots_are_used_again);
        run(test_none_is_held_in_place);
        run(test_one_computes);
        run(test_one_waits_elsewhere);
        run(test_a_refused_hold_interrupts_none);
        run(test_waits_for_a_futex);
        run(test_none_waits_in_place_with_a_timeout);
        run(test_one_blocks_the_signal);
        run(test_only_own_time_counts);
        return 0;
}
