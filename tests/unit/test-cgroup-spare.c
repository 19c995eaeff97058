/* Spare leaves: the next session gets a leaf without any figure of the previous session, or a new leaf. */
#include "supervisor/monitor/cgroup/cgroup-spare.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/test.h"

enum { MIB = 1 << 20 };

static struct event_base *base;
static struct cgroups *cgroups;

static void setup(void)
{
        struct error err = {}, why = {};

        base = event_base_new();
        check_ok(cgroups_open(getenv("CLOISTER_TEST_OURS") != NULL, &cgroups, &why, &err));
        check_eq_int(cgroups_set_loop(cgroups, base), 0);
}

static void teardown(void)
{
        cgroups_free(cgroups);
        event_base_free(base);
}

static struct limits some_limits(void)
{
        struct limits limits;

        limits_default(&limits);
        limits.memory = 128 * MIB;
        limits.pids = 10;
        return limits;
}

static struct cgroup *leaf_with(uint32_t principal, const struct limits *limits)
{
        struct error err = {};
        struct cgroup *leaf;

        check_ok(cgroup_new_of(cgroups, principal, 7, limits, &leaf, &err));
        return leaf;
}

static struct cgroup *leaf(void)
{
        struct limits limits = some_limits();

        return leaf_with(0, &limits);
}

/* Each processor keeps some pages charged until another group needs them, and the kernel frees some memory later. */
static void uncharge(const struct cgroup *c)
{
        int fd = cgroup_leaf_fd(c, CGROUP_MEMORY);

        for (int i = 0; i < 1000; i++) {
                (void)cgroup_write(fd, "memory.force_empty", "0");
                if (cgroup_read_number(fd, "memory.memsw.usage_in_bytes") < SPARE_BYTES)
                        return;
                usleep(1000);
        }
}

/* Frees a leaf. Returns whether the next one is the same. */
static bool is_used_again(struct cgroup *first, struct cgroup **ret)
{
        char name[sizeof(first->name)];

        snprintf(name, sizeof(name), "%s", first->name);
        uncharge(first);
        cgroup_free(first);
        *ret = leaf();
        return strcmp((*ret)->name, name) == 0;
}

/* Runs fn in a child in the leaf, and waits for its end. */
static int run_in(struct cgroup *c, int (*fn)(void))
{
        struct error err = {};
        int ends[2], status;
        char byte = 0;

        check_eq_int(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0)
                _exit(read(ends[0], &byte, 1) == 1 ? fn() : 99);
        check_ok(cgroup_add(c, pid, &err));
        check_eq_int(write(ends[1], &byte, 1), 1);
        close(ends[0]);
        close(ends[1]);
        check_eq_int(waitpid(pid, &status, 0), pid);
        return status;
}

static int take(size_t n)
{
        char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
                p[i] = 1;
        return 0;
}

static int take_much(void)
{
        return take(256 * MIB);
}

static int work(void)
{
        clock_t end = clock() + CLOCKS_PER_SEC / 20;

        while (clock() < end)
                ;
        return take(64 * MIB);
}

static int fork_many(void)
{
        for (int i = 0; i < 20; i++)
                if (fork() == 0)
                        _exit(0);
        while (wait(NULL) > 0)
                ;
        return 0;
}

static uint64_t number_in(const struct cgroup *c, enum cgroup_controller of, const char *file)
{
        return cgroup_read_number(cgroup_leaf_fd(c, of), file);
}

static void test_figures_begin_again(void)
{
        struct cgroup *next, *first = leaf();

        check_eq_int(run_in(first, work), 0);
        check(cgroup_memory_peak(first) >= 64 * MIB);
        check(cgroup_cpu_usec(first) >= 50000);
        check(is_used_again(first, &next));
        check(cgroup_memory_peak(next) <= SPARE_BYTES);
        check(cgroup_cpu_usec(next) < 1000);
        check_eq_int(cgroup_oom_kills(next), 0);
        check_eq_int(cgroup_pids_refused(next), 0);
        check_eq_int(run_in(next, work), 0);
        check(cgroup_memory_peak(next) >= 64 * MIB);
        cgroup_free(next);
}

static void test_limits_are_set_again(void)
{
        struct limits limits = some_limits();
        struct cgroup *next, *first = leaf();
        struct error err = {};
        char name[sizeof(first->name)];

        check_ok(cgroup_set_memory(first, 256 * MIB, &err));
        cgroup_set_pids(first, 99);
        check(is_used_again(first, &next));
        check_eq_int(number_in(next, CGROUP_MEMORY, "memory.limit_in_bytes"), 128 * MIB);
        check_eq_int(number_in(next, CGROUP_PIDS, "pids.max"), 10);
        snprintf(name, sizeof(name), "%s", next->name);
        cgroup_free(next);

        limits.memory = 64 * MIB;
        limits.pids = 20;
        limits.cpu_milli = 300;
        next = leaf_with(0, &limits);
        check_eq_str(next->name, name);
        check_eq_int(number_in(next, CGROUP_MEMORY, "memory.limit_in_bytes"), 64 * MIB);
        check_eq_int(number_in(next, CGROUP_PIDS, "pids.max"), 20);
        check_eq_int(number_in(next, CGROUP_CPU, "cpu.cfs_quota_us"), 30000);
        cgroup_free(next);
        limits.cpu_milli = 0;
        next = leaf_with(0, &limits);
        check_eq_str(next->name, name);
        check_eq_int((int)number_in(next, CGROUP_CPU, "cpu.cfs_quota_us"), -1);
        cgroup_free(next);

        limits.socket_buffers = 1 * MIB;
        next = leaf_with(0, &limits);
        check(strcmp(next->name, name) != 0);
        cgroup_free(next);
}

static void test_rest_ends(void)
{
        struct cgroup *next, *first = leaf();

        check_eq_int(cgroup_rest(first, true), 0);
        check(is_used_again(first, &next));
        check_eq_int(number_in(next, CGROUP_CPU, "cpu.idle"), 0);
        check_eq_int(number_in(next, CGROUP_CPU, "cpu.shares"), 1024);
        cgroup_free(next);
}

/* Frees a leaf. Returns whether it became a spare one. */
static bool is_kept(struct cgroup *c)
{
        size_t before = cgroups->n_spares;

        cgroup_free(c);
        return cgroups->n_spares > before;
}

static void test_counted_events(void)
{
        struct cgroup *quiet = leaf(), *killed = leaf(), *refused = leaf();

        check_eq_int(run_in(quiet, work), 0);
        check(is_kept(quiet));
        check_eq_int(WTERMSIG(run_in(killed, take_much)), SIGKILL);
        check_eq_int(cgroup_oom_kills(killed), 1);
        check(!is_kept(killed));
        check_eq_int(run_in(refused, fork_many), 0);
        check(cgroup_pids_refused(refused) > 0);
        check(!is_kept(refused));
}

static void test_frozen(void)
{
        struct cgroup *frozen = leaf(), *thawed = leaf();

        check_eq_int(cgroup_freeze(frozen, true), 0);
        check(!is_kept(frozen));
        check_eq_int(cgroup_freeze(thawed, true), 0);
        check_eq_int(cgroup_freeze(thawed, false), 0);
        check(is_kept(thawed));
}

/* The child ends when it is killed; it is in the leaf still when that is freed. */
static void test_process_that_is_left(void)
{
        struct cgroup *first = leaf();
        struct error err = {};
        int status;

        pid_t pid = fork();
        if (pid == 0) {
                alarm(10);
                for (;;)
                        pause();
        }
        check_ok(cgroup_add(first, pid, &err));
        check(!is_kept(first));
        check_eq_int(waitpid(pid, &status, 0), pid);
        check_eq_int(WTERMSIG(status), SIGKILL);
}

static int file;

static int write_file(void)
{
        static char page[4096];

        for (int i = 0; i < 256; i++)
                if (write(file, page, sizeof(page)) != sizeof(page))
                        return 1;
        return 0;
}

static void test_charged_leaf_waits(void)
{
        struct cgroup *next, *first = leaf();
        char name[sizeof(first->name)];

        snprintf(name, sizeof(name), "%s", first->name);
        file = memfd_create("charged", MFD_CLOEXEC);
        check_eq_int(run_in(first, write_file), 0);
        check(is_kept(first));
        next = leaf();
        check(strcmp(next->name, name) != 0);
        close(file);
        check_eq_int(cgroups->n_spares, 1);
        uncharge(cgroups->spares[0]);
        struct cgroup *third = leaf();
        check_eq_str(third->name, name);
        cgroup_free(next);
        cgroup_free(third);
}

static void test_principals(void)
{
        const struct cgroup_total total = {1024LL * MIB, 0};
        struct limits limits = some_limits();
        struct error err = {};

        check_ok(cgroups_set_total(cgroups, 0, &total, &err));
        check_ok(cgroups_set_total(cgroups, 1, &total, &err));
        check_ok(cgroups_set_total(cgroups, 2, &total, &err));
        struct cgroup *first = leaf_with(1, &limits);
        cgroup_free(first);
        struct cgroup *other = leaf_with(2, &limits), *none = leaf();
        check(other != first && none != first);
        check_eq_int(strncmp(other->name, "p-2/", 4), 0);
        check_eq_int(cgroups->n_spares, 1);
        struct cgroup *same = leaf_with(1, &limits);
        check(same == first);
        cgroup_free(same);
        cgroup_free(other);
        cgroup_free(none);
        check_eq_int(cgroups->n_spares, 3);
        cgroups_forget_principal(cgroups, 1);
        check_eq_int(cgroups->n_spares, 2);
        check(faccessat(cgroups->items[0].fd, "p-1", F_OK, 0) < 0);
}

static bool exists(const char *name)
{
        return faccessat(cgroups->items[0].fd, name, F_OK, 0) == 0;
}

static void test_list_is_bounded(void)
{
        enum { N = SPARES_OF_ONE + 3 };
        struct cgroup *all[N];
        char name[N][sizeof(all[0]->name)];

        for (int i = 0; i < N; i++) {
                all[i] = leaf();
                snprintf(name[i], sizeof(name[i]), "%s", all[i]->name);
        }
        for (int i = 0; i < N; i++)
                cgroup_free(all[i]);
        for (int i = 0; i < N; i++)
                check_eq_int(exists(name[i]), i < SPARES_OF_ONE);
        fake_clock_advance_ms(SPARE_MS - 1000);
        event_base_loop(base, EVLOOP_NONBLOCK);
        check(exists(name[0]));
        fake_clock_advance_ms(2000);
        for (int i = 0; i < SPARES_OF_ONE; i++)
                event_base_loop(base, EVLOOP_NONBLOCK);
        for (int i = 0; i < N; i++)
                check(!exists(name[i]));
}

/* The kernel may kill what is cloned into a leaf that was killed. */
static void test_not_on_version_2(void)
{
        struct cgroup *first = leaf();
        char name[sizeof(first->name)];

        snprintf(name, sizeof(name), "%s", first->name);
        cgroup_free(first);
        check(!exists(name));
}

/* With groups of its own. */
#define run_alone(fn)                                                                              \
        do {                                                                                       \
                setup();                                                                           \
                run(fn);                                                                           \
                teardown();                                                                        \
        } while (0)

int main(void)
{
        setup();
        enum cgroup_version version = cgroups_version(cgroups);
        teardown();
        if (version == CGROUP_V2)
                run_alone(test_not_on_version_2);
        if (version != CGROUP_V1)
                return 0;
        run_alone(test_figures_begin_again);
        run_alone(test_limits_are_set_again);
        run_alone(test_rest_ends);
        run_alone(test_counted_events);
        run_alone(test_frozen);
        run_alone(test_process_that_is_left);
        run_alone(test_charged_leaf_waits);
        run_alone(test_principals);
        run_alone(test_list_is_bounded);
        return 0;
}
