/* Which slots the watch looks at, and what it takes of memory itself. */
#include "supervisor/monitor/memory-watch.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/template/sandbox-internal.h"
#include "tests/unit/test.h"

enum {
        SLOTS = 4096,
        MUCH = 64 << 20,
        FAULTS_MAX = SLOTS / 4, /* a sanitizer's own memory is an eighth of what is allocated */
        TURNS = 256,            /* each waits for a scan */
};

/* The sanitizer keeps freed memory for a while, and tells of what is not freed. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
static const long faults_in_turn_max = LONG_MAX;
#else
static const long faults_in_turn_max = TURNS / 2;
#endif

static struct sandbox *slots[SLOTS];

static struct {
        int count;
        uint32_t handle;
        uint64_t bytes;
} told;

static void used(void *data, struct sandbox *sandbox, uint64_t bytes)
{
        told.count++;
        told.handle = sandbox_handle(sandbox);
        told.bytes = bytes;
        event_base_loopbreak(data);
}

/* Runs until used() is called, or no sandbox is left to scan. */
static void look(struct event_base *base, struct memory_watch *w)
{
        told.count = 0;
        memory_watch_wake(w);
        event_base_dispatch(base);
}

static long faults(void)
{
        struct rusage usage;

        check_eq_int(getrusage(RUSAGE_SELF, &usage), 0);
        return usage.ru_minflt;
}

static struct memory_watch *new_watch(struct event_base *base)
{
        const struct memory_watch_host host = {base, NULL, slots, SLOTS, base, used};
        struct memory_watch *w = NULL;
        struct error err = {};

        check_ok(memory_watch_new(&host, &w, &err));
        return w;
}

static void test_empty_slots_take_no_memory(void)
{
        struct event_base *base = event_base_new();
        struct sandbox s = {.handle = 1};

        long before = faults();
        struct memory_watch *w = new_watch(base);
        look(base, w);
        check_eq_int(told.count, 0);
        check(memory_watch_used(w, &s) == 0);
        memory_watch_free(w);
        check(faults() - before < FAULTS_MAX);
        event_base_free(base);
}

/* Here, this process is the only one of each sandbox. */
static void test_any_slot_is_looked_at(void)
{
        static const int order[] = {SLOTS - 1, 3, 0, 2};
        char folder[] = "/tmp/cloister-test-XXXXXX";
        struct event_base *base = event_base_new();
        struct memory_watch *w = new_watch(base);

        check(mkdtemp(folder) != NULL);
        _cleanup_close_ int proc = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check_eq_int(symlinkat("/proc/self", proc, "2"), 0);
        for (uint32_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
                struct sandbox s = {.handle = i + 1, .memory = {proc, -1, UINT64_MAX / 4}};
                slots[order[i]] = &s;
                look(base, w);
                check_eq_int(told.count, 1);
                check_eq_int(told.handle, i + 1);
                check(memory_watch_used(w, &s) == told.bytes && told.bytes > 0);
                check(memory_watch_sum(w) > 0);
                check(memory_watch_sum(w) == memory_watch_part(w, (uint32_t)order[i]));
                /* The next one in the slot is another one. */
                s.handle += 100;
                check(memory_watch_used(w, &s) == 0);
                look(base, w);
                check_eq_int(told.handle, i + 101);
                slots[order[i]] = NULL;
                memory_watch_forget(w, (uint32_t)order[i]);
                check(memory_watch_sum(w) == 0);
                look(base, w);
                check(memory_watch_sum(w) == 0);
                check_eq_int(told.count, 0);
                check(memory_watch_used(w, &s) == 0);
        }
        memory_watch_free(w);
        event_base_free(base);
        check_eq_int(unlinkat(proc, "2", 0), 0);
        check_eq_int(rmdir(folder), 0);
}

static void on_signal(int number)
{
        (void)number;
}

static pid_t sleeper(void)
{
        pid_t pid = fork();

        check(pid >= 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                signal(SIGUSR1, on_signal);
                for (;;)
                        pause();
        }
        return pid;
}

/* A server takes its slots at random, so that soon each has had a sandbox. */
static void test_slots_that_had_a_sandbox_take_no_memory(void)
{
        char folder[] = "/tmp/cloister-test-XXXXXX";
        struct event_base *base = event_base_new();
        struct memory_watch *w = new_watch(base);
        long before = 0;

        check(mkdtemp(folder) != NULL);
        _cleanup_close_ int proc = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check_eq_int(symlinkat("/proc/self", proc, "2"), 0);
        for (uint32_t i = 0; i < SLOTS; i += SLOTS / TURNS) {
                struct sandbox s = {.handle = i + 1, .memory = {proc, -1, UINT64_MAX / 4}};
                slots[i] = &s;
                look(base, w);
                check_eq_int(told.handle, i + 1);
                slots[i] = NULL;
                memory_watch_forget(w, i);
                before = before ? before : faults();
        }
        check(faults() - before < faults_in_turn_max);
        memory_watch_free(w);
        event_base_free(base);
        check_eq_int(unlinkat(proc, "2", 0), 0);
        check_eq_int(rmdir(folder), 0);
}

/* Runs for this long, or until used() is called. */
static void look_for_ms(struct event_base *base, long ms)
{
        told.count = 0;
        event_base_loopexit(base, &(struct timeval){ms / 1000, ms % 1000 * 1000});
        event_base_dispatch(base);
}

/* This process is init. The link of its child leads elsewhere meanwhile, to a process with far more memory: only if the child has run,
 * it is read again. */
static void test_processes_that_do_not_run_are_not_read(void)
{
        char folder[] = "/tmp/cloister-test-XXXXXX", name[16], to[32];
        struct event_base *base = event_base_new();
        struct memory_watch *w = new_watch(base);
        pid_t child = sleeper();

        check(mkdtemp(folder) != NULL);
        _cleanup_close_ int proc = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        snprintf(name, sizeof(name), "%d", (int)child);
        snprintf(to, sizeof(to), "/proc/%d", (int)child);
        check_eq_int(symlinkat(to, proc, name), 0);
        struct sandbox s = {.handle = 1, .pid = getpid(), .memory = {proc, -1, UINT64_MAX / 4}};
        slots[0] = &s;
        look(base, w);
        check_eq_int(told.count, 1);
        look_for_ms(base, 3000);
        check_eq_int(told.count, 0);

        void *much = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(much != MAP_FAILED && memset(much, 1, MUCH));
        check_eq_int(unlinkat(proc, name, 0), 0);
        check_eq_int(symlinkat("/proc/self", proc, name), 0);
        look_for_ms(base, 600);
        check_eq_int(told.count, 0);
        check_eq_int(kill(child, SIGUSR1), 0);
        look_for_ms(base, 5000);
        check_eq_int(told.count, 1);
        check(told.bytes > MUCH);

        slots[0] = NULL;
        check_eq_int(munmap(much, MUCH), 0);
        check_eq_int(kill(child, SIGKILL), 0);
        check_eq_int(waitpid(child, NULL, 0), child);
        memory_watch_free(w);
        event_base_free(base);
        check_eq_int(unlinkat(proc, name, 0), 0);
        check_eq_int(rmdir(folder), 0);
}

int main(void)
{
        run(test_empty_slots_take_no_memory);
        run(test_any_slot_is_looked_at);
        run(test_slots_that_had_a_sandbox_take_no_memory);
        run(test_processes_that_do_not_run_are_not_read);
        return 0;
}
