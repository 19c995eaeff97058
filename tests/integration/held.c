/* A library with threads, for test_threads_return.py: each waits in another way, and does its work again and again. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum kind {
        CONDITION,
        SEMAPHORE,
        EPOLL,
        POLL,
        READ,
        SLEEP,
        RECURSIVE,
        ERROR_CHECK,
        WRITE_LOCK,
        BLOCKS_ALL,
        KINDS
};

struct worker {
        enum kind kind;
        pthread_t thread;
        pthread_mutex_t mutex;
        pthread_cond_t condition;
        sem_t semaphore;
        int event, set;
        atomic_int asked, done, wrong;
        pthread_mutex_t held;
        pthread_rwlock_t written;
        char name[16];
        _Atomic(pid_t) id;
        void *stack;
};

int begin(int n);
int work(void);
unsigned which(void);
int begin_busy(void);
void end_busy(void);
int begin_brief(void);
bool sends_signal(int number);

static struct worker *workers;
static int n_workers;

/* Returns whether another thread than the holder finds the lock taken. */
static void wait_for_work(struct worker *w)
{
        struct epoll_event got;
        uint64_t value;

        switch (w->kind) {
        case SEMAPHORE: {
                struct timespec until;
                clock_gettime(CLOCK_REALTIME, &until);
                until.tv_sec += 1000;
                while (sem_timedwait(&w->semaphore, &until) < 0)
                        w->wrong += errno != EINTR;
                return;
        }
        case EPOLL:
                while (epoll_wait(w->set, &got, 1, -1) != 1)
                        w->wrong += errno != EINTR;
                w->wrong += got.data.u64 != UINT64_C(0x123456789a);
                w->wrong += read(w->event, &value, sizeof(value)) != sizeof(value);
                return;
        case POLL: {
                struct pollfd p = {.fd = w->event, .events = POLLIN};
                while (poll(&p, 1, 1000000) != 1)
                        w->wrong += errno != EINTR;
                w->wrong += read(w->event, &value, sizeof(value)) != sizeof(value);
                return;
        }
        case READ:
                w->wrong += read(w->event, &value, sizeof(value)) != sizeof(value);
                return;
        case SLEEP:
                while (w->done >= w->asked)
                        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
                return;
        default:
                pthread_mutex_lock(&w->mutex);
                while (w->done >= w->asked)
                        pthread_cond_wait(&w->condition, &w->mutex);
                pthread_mutex_unlock(&w->mutex);
        }
}

/* Does what only the owner of a lock can do. */
static void use_locks(struct worker *w)
{
        if (w->kind == RECURSIVE) {
                w->wrong += pthread_mutex_lock(&w->held) != 0;
                w->wrong += pthread_mutex_unlock(&w->held) != 0;
                w->wrong += pthread_mutex_unlock(&w->held) != 0;
                w->wrong += pthread_mutex_trylock(&w->held) != 0;
        } else if (w->kind == ERROR_CHECK) {
                w->wrong += pthread_mutex_lock(&w->held) != EDEADLK;
                w->wrong += pthread_mutex_unlock(&w->held) != 0;
                w->wrong += pthread_mutex_lock(&w->held) != 0;
        } else if (w->kind == WRITE_LOCK) {
                w->wrong += pthread_rwlock_wrlock(&w->written) != EDEADLK;
                w->wrong += pthread_rwlock_unlock(&w->written) != 0;
                w->wrong += pthread_rwlock_wrlock(&w->written) != 0;
        }
}

static void *run(void *data)
{
        struct worker *w = data;
        stack_t stack = {.ss_sp = w->stack, .ss_size = 65536}, now;
        char name[16];
        pthread_attr_t attributes;

        sigaltstack(&stack, NULL);
        pthread_setname_np(pthread_self(), w->name);
        if (w->kind == RECURSIVE || w->kind == ERROR_CHECK)
                pthread_mutex_lock(&w->held);
        if (w->kind == WRITE_LOCK)
                pthread_rwlock_wrlock(&w->written);
        if (w->kind == BLOCKS_ALL) {
                sigset_t all;
                sigfillset(&all);
                pthread_sigmask(SIG_BLOCK, &all, NULL);
        }
        for (;;) {
                w->id = (pid_t)syscall(SYS_gettid);
                wait_for_work(w);
                use_locks(w);
                /* The properties that libc and the kernel store for the thread. */
                prctl(PR_GET_NAME, name);
                w->wrong += strcmp(name, w->name) != 0;
                w->wrong += sigaltstack(NULL, &now) != 0 || now.ss_sp != w->stack;
                w->wrong += pthread_getattr_np(pthread_self(), &attributes) != 0;
                pthread_attr_destroy(&attributes);
                w->wrong += pthread_kill(pthread_self(), 0) != 0;
                w->id = (pid_t)syscall(SYS_gettid);
                w->done++;
        }
        return NULL;
}

/* In two mappings that follow each other: the lock of the first worker of the kind RECURSIVE is in both. The page after the last worker cannot be
 * read. */
static struct worker *make_workers(int n)
{
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = 2 * page,
                     size = (before + (size_t)n * sizeof(struct worker) + 2 * page - 1) & -page;
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED || madvise(at + before, size - before, MADV_DONTDUMP) < 0)
                abort();
        at[size - page] = 1;
        if (mprotect(at + size - page, page, PROT_NONE) < 0)
                abort();
        return (struct worker *)(void *)(at + before - 8 - RECURSIVE * sizeof(struct worker) -
                                         offsetof(struct worker, held));
}

/* Starts n threads. Returns how many there are. */
int begin(int n)
{
        pthread_mutexattr_t recursive, checked;
        pthread_attr_t small;

        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 256 * 1024);
        pthread_mutexattr_init(&recursive);
        pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutexattr_init(&checked);
        pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
        workers = make_workers(n);
        for (int i = 0; i < n; i++) {
                struct worker *w = &workers[i];
                w->kind = (enum kind)(i % KINDS);
                pthread_mutex_init(&w->mutex, NULL);
                pthread_cond_init(&w->condition, NULL);
                sem_init(&w->semaphore, 0, 0);
                w->event = eventfd(0, EFD_CLOEXEC);
                w->set = epoll_create1(EPOLL_CLOEXEC);
                struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_C(0x123456789a)};
                epoll_ctl(w->set, EPOLL_CTL_ADD, w->event, &event);
                pthread_mutex_init(&w->held, w->kind == RECURSIVE ? &recursive : &checked);
                pthread_rwlock_init(&w->written, NULL);
                w->name[0] = 'h';
                w->name[1] = (char)('0' + i / 10);
                w->name[2] = (char)('0' + i % 10);
                w->stack = malloc(65536);
                if (pthread_create(&w->thread, &small, run, w) != 0)
                        return n_workers;
                n_workers++;
        }
        return n_workers;
}

/* All threads work once. Returns how many have not done it in 10 s, or did something wrong. */
int work(void)
{
        const uint64_t one = 1;
        int bad = 0;

        for (int i = 0; i < n_workers; i++) {
                struct worker *w = &workers[i];
                pthread_mutex_lock(&w->mutex);
                w->asked++;
                pthread_cond_broadcast(&w->condition);
                pthread_mutex_unlock(&w->mutex);
                sem_post(&w->semaphore);
                bad += write(w->event, &one, sizeof(one)) != sizeof(one);
        }
        for (int i = 0; i < n_workers; i++) {
                struct worker *w = &workers[i];
                for (int waited = 0; w->done < w->asked && waited < 1000; waited++)
                        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
                bad += w->done < w->asked || w->wrong > 0;
        }
        return bad;
}

/* Which kinds are wrong: two bits for each, not done and wrong. */
unsigned which(void)
{
        unsigned bits = 0;

        for (int i = 0; i < n_workers; i++)
                bits |= ((workers[i].done < workers[i].asked ? 1U : 0) |
                         (workers[i].wrong > 0 ? 2U : 0))
                        << 2 * workers[i].kind;
        return bits;
}

/* A thread that never waits. */
static void *compute(void *data)
{
        pthread_setname_np(pthread_self(), "busy");
        for (volatile unsigned n = 0; !atomic_load((atomic_int *)data);)
                n = n + 1;
        return NULL;
}

static atomic_int ends;

int begin_busy(void)
{
        pthread_t thread;

        ends = 0;
        return pthread_create(&thread, NULL, compute, &ends) || pthread_detach(thread);
}

void end_busy(void)
{
        ends = 1;
}

/* Threads that are made and end all the time. */
static void *brief(void *data)
{
        return data;
}

static void *make_brief(void *data)
{
        pthread_t thread;

        while (!atomic_load((atomic_int *)data)) {
                if (pthread_create(&thread, NULL, brief, NULL) == 0)
                        pthread_join(thread, NULL);
                nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
        }
        return NULL;
}

int begin_brief(void)
{
        pthread_t thread;

        ends = 0;
        return pthread_create(&thread, NULL, make_brief, &ends) || pthread_detach(thread);
}

bool sends_signal(int number)
{
        bool sent = n_workers > 0;

        for (int i = 0; i < n_workers; i++)
                sent &= syscall(SYS_tgkill, getpid(), workers[i].id, number) == 0;
        return sent;
}
