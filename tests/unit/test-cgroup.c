/* Control groups: the limits of a leaf, and that no group remains. As an ordinary user: no groups are
 * available, and the reason is reported. */
#include "supervisor/monitor/cgroup/cgroup-total.h"
#include "supervisor/monitor/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/cgroup/janitor.h"
#include "supervisor/monitor/ids/ids.h"
#include "supervisor/monitor/process/child.h"
#include "tests/unit/test.h"

/* ---- an ordinary user ---- */

static void test_none_says_why(void)
{
        struct cgroups *cgroups;
        struct error err = {0}, why = {0};
        struct cgroup *cgroup;
        struct limits limits;
        const char *paths[4];

        check_ok(cgroups_open(getenv("CLOISTER_TEST_OURS") != NULL, &cgroups, &why, &err));
        check_eq_int(cgroups_version(cgroups), CGROUP_NONE);
        printf("# %s\n", why.text);
        check_has(why.text, "cgroup");
        check_has(why.text, "root");
        check_eq_int(cgroups_paths(cgroups, paths, 4), 0);
        limits_default(&limits);
        check(cgroup_new(cgroups, 1, &limits, &cgroup, &err) < 0);
        check(!cgroups_free(cgroups));
}

/* ---- root ---- */

static struct cgroups *open_cgroups(void)
{
        struct cgroups *cgroups;
        struct error err = {0}, why = {0};

        check_ok(cgroups_open(getenv("CLOISTER_TEST_OURS") != NULL, &cgroups, &why, &err));
        if (cgroups_version(cgroups) == CGROUP_NONE)
                fprintf(stderr, "as root, and no cgroup: %s\n", why.text);
        check(cgroups_version(cgroups) != CGROUP_NONE);
        return cgroups;
}

static struct cgroup *new_leaf(struct cgroups *cgroups, uint64_t memory, uint32_t pids)
{
        struct limits limits;
        struct error err = {0};
        struct cgroup *cgroup;

        limits_default(&limits);
        limits.memory = memory;
        limits.pids = pids;
        check_ok(cgroup_new(cgroups, 7, &limits, &cgroup, &err));
        return cgroup;
}

/* A child in the leaf that runs fn and exits with its result. */
static pid_t run_inside(struct cgroup *cgroup, int (*fn)(void))
{
        int ends[2];
        char byte = 0;
        struct error err = {0};

        check_eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0) {
                /* Like a sandbox, it holds neither the lock nor the janitor's pipe. */
                child_close_all_but(&ends[0], 1);
                check_eq_int(fd_write_all(ends[0], &byte, 1), 0);
                _exit(fd_read_full(ends[0], &byte, 1) == 1 ? fn() : 99);
        }
        close(ends[0]);
        check_eq_int(fd_read_full(ends[1], &byte, 1), 1);
        check_ok(cgroup_add(cgroup, pid, &err));
        check_eq_int(fd_write_all(ends[1], &byte, 1), 0);
        close(ends[1]);
        return pid;
}

static int wait_for(pid_t pid)
{
        int status;

        check_eq_int(waitpid(pid, &status, 0), pid);
        return status;
}

static int take_memory(void)
{
        size_t n = 256UL << 20;
        char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (size_t i = 0; p != MAP_FAILED && i < n; i += 4096)
                p[i] = 1;
        return 0;
}

static int take_little(void)
{
        char *p = malloc(1 << 20);

        if (p)
                memset(p, 1, 1 << 20);
        return p ? 0 : 1;
}

static int sleep_long(void)
{
        sleep(600);
        return 0;
}

static int count_forks(void)
{
        int made = 0;

        while (made < 50) {
                pid_t pid = fork();
                if (pid == 0)
                        sleep_long();
                if (pid < 0)
                        break;
                made++;
        }
        return made;
}

static int64_t now_ms(void)
{
        return (int64_t)clock_ms();
}

static int spin(void)
{
        int64_t start = now_ms();

        while (now_ms() - start < 300)
                ;
        return 0;
}

static void test_memory_is_bounded(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *small = new_leaf(cgroups, 32 << 20, 16);
        struct cgroup *large = new_leaf(cgroups, 512 << 20, 16);

        uint64_t seen = 0;

        check_eq_int(wait_for(run_inside(small, take_little)), 0);
        check_eq_int(cgroup_oom_kills(small), 0);
        check(!cgroup_has_reached_limit(small, &seen));
        int status = wait_for(run_inside(small, take_memory));
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        check_eq_int(cgroup_oom_kills(small), 1);
        check(cgroup_has_reached_limit(small, &seen));
        check(cgroup_memory_peak(small) > 16 << 20);
        check(cgroup_memory_peak(small) <= 32 << 20);
        /* The control. */
        check_eq_int(wait_for(run_inside(large, take_memory)), 0);
        check_eq_int(cgroup_oom_kills(large), 0);
        cgroup_free(small);
        cgroup_free(large);
        cgroups_free(cgroups);
}

static void check_file(const char *directory, const char *file, const char *expected)
{
        char path[600], text[32];

        snprintf(path, sizeof(path), "%s/sandboxes/s-7-1/%s", directory, file);
        if (cgroup_read(AT_FDCWD, path, text, sizeof(text)) >= 0)
                check_eq_str(text, expected);
}

/* Reads the limit, because a machine without swap would not show its effect. */
static void test_no_swap(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *cgroup = new_leaf(cgroups, 32 << 20, 5);
        const char *paths[JANITOR_PATHS_MAX];

        size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
        for (size_t i = 0; i < n; i++) {
                check_file(paths[i], "memory.memsw.limit_in_bytes", "33554432\n");
                check_file(paths[i], "memory.swappiness", "0\n");
                check_file(paths[i], "memory.swap.max", "0\n");
        }
        cgroup_free(cgroup);
        cgroups_free(cgroups);
}

static struct cgroup *leaf_of(struct cgroups *cgroups, uint32_t principal)
{
        struct limits limits;
        struct error err = {0};
        struct cgroup *cgroup;

        limits_default(&limits);
        check_ok(cgroup_new_of(cgroups, principal, 7, &limits, &cgroup, &err));
        return cgroup;
}

/* take_memory() fits into each leaf. The one that reaches a limit above its own is killed by it. */
static void check_sum(struct cgroup *leaf, bool is_killed)
{
        int status = wait_for(run_inside(leaf, take_memory));
        uint64_t seen = 0;

        check_eq_int(WIFSIGNALED(status) ? WTERMSIG(status) : 0, is_killed ? SIGKILL : 0);
        check_eq_int(cgroup_oom_kills(leaf), is_killed);
        check(!cgroup_has_reached_limit(leaf, &seen));
        cgroup_free(leaf);
}

/* Of a file that one hierarchy has, by its path from "sandboxes"; -1: none has it. */
static long number_of(struct cgroups *cgroups, const char *file)
{
        const char *paths[JANITOR_PATHS_MAX];
        size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
        char path[600];
        long found = -1;

        for (size_t i = 0; i < n; i++) {
                snprintf(path, sizeof(path), "%s/sandboxes/%s", paths[i], file);
                found = access(path, F_OK) == 0 ? (long)cgroup_read_number(AT_FDCWD, path) : found;
        }
        return found;
}

/* Version 1 counts the limit of a group for a moment after its end. */
static void set_all(struct cgroups *cgroups, const struct cgroup_total *total)
{
        struct error err = {0};
        int r;

        for (int i = 0; (r = cgroups_set_total(cgroups, 0, total, &err)) == -EINVAL && i < 200; i++)
                usleep(10000);
        check_ok(r);
}

static void test_sums_are_bounded(void)
{
        const struct cgroup_total small = {16 << 20, 500}, large = {384 << 20, 0};
        struct cgroups *cgroups = open_cgroups();
        struct error err = {0};
        uint64_t seen = 0, other = 0;

        check_ok(cgroups_set_total(cgroups, 0, &large, &err));
        check_ok(cgroups_set_total(cgroups, 3, &small, &err));
        check_ok(cgroups_set_total(cgroups, 4, &small, &err));
        check_ok(cgroups_set_total(cgroups, 4, &large, &err));
        check_sum(leaf_of(cgroups, 3), true);
        check(cgroups_principal_has_reached_limit(cgroups, 3, &seen));
        check(!cgroups_principal_has_reached_limit(cgroups, 3, &seen)); /* not again */
        check_sum(leaf_of(cgroups, 4), false);                          /* the control */
        set_all(cgroups, &small);
        check_sum(leaf_of(cgroups, 0), true);
        check(!cgroups_principal_has_reached_limit(cgroups, 4, &other));
        long most = (long)cgroup_read_number(AT_FDCWD, "/proc/sys/kernel/pid_max");
        check(number_of(cgroups, "pids.max") >= 1000 && number_of(cgroups, "pids.max") < most);
        check_eq_int(number_of(cgroups, "p-3/pids.max"), number_of(cgroups, "pids.max") / 2);
        bool has_idle = number_of(cgroups, "p-3/cpu.idle") == 0; /* since Linux 5.15 */
        cgroups_weigh(cgroups, 3, CGROUP_PART_USUAL, CGROUP_PART_REST);
        check_eq_int(number_of(cgroups, "p-3/cpu.idle"), has_idle ? 1 : -1);
        check_eq_int(number_of(cgroups, "p-4/cpu.idle"), has_idle ? 0 : -1);
        bool is_v2 = cgroups_version(cgroups) == CGROUP_V2;
        const char *file = is_v2 ? "p-3/cpu.weight" : "p-3/cpu.shares";
        cgroups_weigh(cgroups, 3, CGROUP_PART_REST, CGROUP_PART_BUSY);
        check_eq_int(number_of(cgroups, file), !has_idle ? -1 : is_v2 ? 10 : 102);
        cgroups_weigh(cgroups, 3, CGROUP_PART_BUSY, CGROUP_PART_USUAL);
        check_eq_int(number_of(cgroups, file), !has_idle ? -1 : is_v2 ? 100 : 1024);
        /* Removed when it is empty. */
        struct cgroup *kept = leaf_of(cgroups, 4);
        cgroups_forget_principal(cgroups, 3);
        cgroups_forget_principal(cgroups, 4);
        check_eq_int(cgroups_used(cgroups, 3, 0), 0);
        check_ok(cgroups_set_total(cgroups, 4, &large, &err));
        cgroup_free(kept);
        cgroups_free(cgroups);
}

static struct cgroup *server_leaf(struct cgroups *cgroups)
{
        struct error err = {0};
        struct cgroup *cgroup;

        check_ok(cgroup_new_server(cgroups, &cgroup, &err));
        return cgroup;
}

static void test_servers_are_bounded(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct error err = {0};

        check_ok(cgroups_set_servers(cgroups, 16 << 20, &err));
        check_sum(server_leaf(cgroups), true);
        check_ok(cgroups_set_servers(cgroups, 384 << 20, &err));
        struct cgroup *one = server_leaf(cgroups);
        pid_t pid = run_inside(one, sleep_long);
        check_sum(server_leaf(cgroups), false); /* the control */
        cgroup_free(one);
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        cgroups_free(cgroups);
}

static bool is_in(pid_t pid, const char *name)
{
        char path[32], text[4096];

        snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
        return cgroup_read(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, name);
}

static void test_supervisor(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *leaf = new_leaf(cgroups, 64 << 20, 10);
        struct error err = {0};
        pid_t pids[] = {fork(), run_inside(leaf, sleep_long)};

        if (pids[0] == 0)
                sleep_long();
        check(!is_in(getpid(), "/supervisor") && !is_in(pids[0], "/supervisor"));
        check_ok(cgroups_enter(cgroups, pids, 2, &err));
        check(is_in(getpid(), "/supervisor") && is_in(pids[0], "/supervisor"));
        check(is_in(pids[1], "/sandboxes/s-7"));
        kill(pids[0], SIGKILL);
        wait_for(pids[0]);
        cgroup_free(leaf);
        cgroups_free(cgroups);
        check(!is_in(getpid(), "/supervisor"));
        check_eq_int(WTERMSIG(wait_for(pids[1])), SIGKILL);
}

static int stay(void)
{
        sleep(1);
        return 42;
}

/* A monitor in another pid namespace can have the same name: process id and time of start. */
static void test_one_of_the_same_name(void)
{
        struct cgroups *cgroups = open_cgroups(), *other;
        struct cgroup *leaf = new_leaf(cgroups, 32 << 20, 5);
        struct error err = {0}, why = {0};
        pid_t pid = run_inside(leaf, stay);

        check_ok(cgroups_open(getenv("CLOISTER_TEST_OURS") != NULL, &other, &why, &err));
        check_eq_int(cgroups_version(other), CGROUP_NONE);
        cgroups_free(other);
        check_eq_int(WEXITSTATUS(wait_for(pid)), 42);
        cgroup_free(leaf);
        cgroups_free(cgroups);
}

static void test_lower_cpu(void)
{
        const struct cgroup_total whole = {384 << 20, 1000}, most = {384 << 20, 800},
                                  half = {384 << 20, 500}, less = {384 << 20, 400};
        struct cgroups *cgroups = open_cgroups();
        struct error err = {0};

        check_ok(cgroups_set_total(cgroups, 0, &whole, &err));
        check_ok(cgroups_set_total(cgroups, 3, &most, &err));
        /* Version 1 refuses it; version 2 lets the lower one hold. */
        check_eq_int(cgroups_set_total(cgroups, 0, &half, &err),
                     cgroups_version(cgroups) == CGROUP_V1 ? -EINVAL : 0);
        check_ok(cgroups_set_total(cgroups, 3, &less, &err));
        set_all(cgroups, &half);
        /* A session with a higher limit of its own starts nevertheless. */
        cgroup_free(leaf_of(cgroups, 3));
        cgroups_free(cgroups);
}

static void test_machine_is_known(void)
{
        struct cgroup_total here = cgroup_total_here();

        check(here.memory > 64 << 20 &&
              here.memory <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
        check(here.cpu_milli > 0 && here.cpu_milli <= sysconf(_SC_NPROCESSORS_ONLN) * 1000);
}

static void test_pids_are_bounded(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *small = new_leaf(cgroups, 64 << 20, 5);
        struct cgroup *large = new_leaf(cgroups, 64 << 20, 100);

        check_eq_int(WEXITSTATUS(wait_for(run_inside(small, count_forks))), 4);
        check_eq_int(WEXITSTATUS(wait_for(run_inside(large, count_forks))), 50);
        cgroup_free(small);
        cgroup_free(large); /* kills the processes that still run */
        cgroups_free(cgroups);
}

static void test_cpu_is_bounded_and_counted(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct limits limits;
        struct error err = {0};
        struct cgroup *cgroup;
        int usage[SESSION_FDS] = {-1, -1, -1, -1, -1, -1, -1};
        char text[256];

        check(cgroups_bounds_cpu(cgroups));
        limits_default(&limits);
        limits.cpu_milli = 200;
        check_ok(cgroup_new(cgroups, 1, &limits, &cgroup, &err));
        check_eq_int(wait_for(run_inside(cgroup, take_little)), 0);
        check_eq_int(wait_for(run_inside(cgroup, spin)), 0);
        uint64_t used = cgroup_cpu_usec(cgroup);
        if (used <= 10 * 1000 || used >= 180 * 1000) /* 60 ms of 300; one period more is allowed */
                test_fail_("%llu us of 300,000", (unsigned long long)used);

        check_ok(cgroup_open_usage(cgroup, usage, &err));
        check(pread(usage[SESSION_MEMORY_PEAK], text, sizeof(text), 0) > 0);
        uint64_t peak = strtoull(text, NULL, 10);
        check(peak > 0);
        check(pread(usage[SESSION_MEMORY], text, sizeof(text), 0) > 0);
        check(strtoull(text, NULL, 10) <= peak);
        check(pread(usage[SESSION_CPU], text, sizeof(text), 0) > 0);
        if (cgroups_version(cgroups) == CGROUP_V1)
                check(strtoull(text, NULL, 10) / 1000 >= used);
        else
                check_has(text, "usage_usec ");
        fd_close_many(usage, SESSION_FDS);
        cgroup_free(cgroup);
        cgroups_free(cgroups);
}

static void test_kill_and_free(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *cgroup = new_leaf(cgroups, 64 << 20, 100);
        pid_t pid = run_inside(cgroup, sleep_long);

        check_eq_int(cgroup_kill(cgroup), 0);
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        cgroup_free(cgroup);

        cgroup = new_leaf(cgroups, 64 << 20, 100);
        pid = run_inside(cgroup, sleep_long);
        check(!cgroup_free(cgroup));
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        cgroups_free(cgroups);
}

static int tick(void)
{
        /* The usage is charged to the leaf, although the process started outside it. */
        static volatile char memory[1 << 20];

        for (size_t i = 0;; i = (i + 4096) % sizeof(memory)) {
                memory[i] = 1;
                sched_yield();
        }
        return 0;
}

static bool runs(struct cgroup *cgroup, int looks) /* at 0.1 s from each other */
{
        for (uint64_t before = cgroup_cpu_usec(cgroup); looks > 0; looks--, usleep(100000))
                if (cgroup_cpu_usec(cgroup) > before)
                        return true;
        return false;
}

static void test_rest(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *cgroup = new_leaf(cgroups, 64 << 20, 100);
        int fd = cgroup_leaf_fd(cgroup, cgroups->operations->cpu_limit_controller);

        if (fd >= 0 && faccessat(fd, "cpu.idle", F_OK, 0) == 0) {
                check_eq_int(cgroup_rest(cgroup, true), 0);
                check_eq_int(cgroup_read_number(fd, "cpu.idle"), 1);
                check_eq_int(cgroup_rest(cgroup, false), 0);
                check_eq_int(cgroup_read_number(fd, "cpu.idle"), 0);
                if (cgroups_version(cgroups) == CGROUP_V1)
                        check_eq_int(cgroup_read_number(fd, "cpu.shares"), 1024);
                else
                        check_eq_int(cgroup_read_number(fd, "cpu.weight"), 100);
        } else {
                check(fd < 0 || cgroup_rest(cgroup, true) <= 0);
        }
        pid_t pid = run_inside(cgroup, tick);
        check(cgroup_count(cgroup) == 1 || cgroup_leaf_fd(cgroup, CGROUP_UNIFIED) < 0);
        kill(pid, SIGKILL);
        wait_for(pid);
        cgroup_free(cgroup);
        cgroups_free(cgroups);
}

/* Kernels before 5.15 have weights only: files of a directory stand in for both versions. */
static void test_rest_by_weight(void)
{
        static const struct cgroup_operations versions[] = {
                {.version = CGROUP_V1, .cpu_limit_controller = CGROUP_CPU},
                {.version = CGROUP_V2, .cpu_limit_controller = CGROUP_CPU},
        };
        static const char *const files[] = {"cpu.shares", "cpu.weight"}, *const usual[] = {"1024",
                                                                                           "100"};
        char directory[] = "/tmp/test-cgroup-XXXXXX", text[16];

        check(mkdtemp(directory));
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 2; i++) {
                struct cgroups owner = {.operations = &versions[i],
                                        .items = {{.controllers = CGROUP_CPU}},
                                        .count = 1};
                struct cgroup cgroup = {.owner = &owner, .fds = {fd}};
                check_eq_int(cgroup_rest(&cgroup, true), -ENOENT);
                close(openat(fd, files[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
                check_eq_int(cgroup_rest(&cgroup, true), 0);
                cgroup_read(fd, files[i], text, sizeof(text));
                check_eq_int(atoi(text), i == 0 ? 2 : 1);
                check_eq_int(cgroup_rest(&cgroup, false), 0);
                cgroup_read(fd, files[i], text, sizeof(text));
                check_eq_str(text, usual[i]);
                unlinkat(fd, files[i], 0);
        }
        close(fd);
        rmdir(directory);
}

static void test_freeze(void)
{
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *cgroup = new_leaf(cgroups, 64 << 20, 100);
        pid_t pid = run_inside(cgroup, tick);

        check(runs(cgroup, 100));
        for (int i = 0; i < 2; i++) {
                check_eq_int(cgroup_freeze(cgroup, true), 0);
                while (!cgroup_is_frozen(cgroup))
                        usleep(10000);
                check(!runs(cgroup, 2));
                check_eq_int(cgroup_freeze(cgroup, false), 0);
                check(runs(cgroup, 100));
        }
        check_eq_int(cgroup_freeze(cgroup, true), 0);
        check_eq_int(cgroup_kill(cgroup), 0);
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        cgroup_free(cgroup);
        cgroups_free(cgroups);
}

static bool exists(const char *path)
{
        return access(path, F_OK) == 0;
}

static bool gone_within(const char *path, int ms)
{
        for (int i = 0; i < ms / 10 && exists(path); i++)
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        return !exists(path);
}

static void test_free_removes_directories(void)
{
        struct cgroups *cgroups = open_cgroups();
        const char *paths[8];
        char copies[8][512];

        size_t n = cgroups_paths(cgroups, paths, 8);
        check(n >= 1);
        for (size_t i = 0; i < n; i++) {
                snprintf(copies[i], sizeof(copies[i]), "%s", paths[i]);
                check(exists(paths[i]));
        }
        struct cgroup *kept = new_leaf(cgroups, 64 << 20, 10);
        pid_t pid = run_inside(kept, sleep_long);
        cgroups_free(cgroups); /* also removes the groups that are left */
        for (size_t i = 0; i < n; i++)
                check(!exists(copies[i]));
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        free(kept); /* its owner is freed; the descriptors are closed at exit */
}

/* A "monitor" in a child with a process in a leaf, which then kills itself. Writes its first path
 * and the pid. */
static void killed_monitor(bool with_janitor, char path[512], pid_t *sleeper)
{
        int ends[2];

        check_eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = fork();
        if (pid == 0) {
                const char *paths[JANITOR_PATHS_MAX];
                char own[512] = "";
                struct error err = {0};
                int janitor;

                struct cgroups *cgroups = open_cgroups();
                size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
                if (with_janitor)
                        check_ok(janitor_start(paths, n, NULL, &janitor, &err));
                snprintf(own, sizeof(own), "%s", paths[0]);
                pid_t inside = run_inside(new_leaf(cgroups, 64 << 20, 10), sleep_long);
                check_eq_int(fd_write_all(ends[1], own, sizeof(own)), 0);
                check_eq_int(fd_write_all(ends[1], &inside, sizeof(inside)), 0);
                raise(SIGKILL);
        }
        close(ends[1]);
        check_eq_int(fd_read_full(ends[0], path, 512), 512);
        check_eq_int(fd_read_full(ends[0], sleeper, sizeof(*sleeper)), sizeof(*sleeper));
        close(ends[0]);
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
}

static bool is_dead(pid_t pid)
{
        char path[32], text[512];

        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        return cgroup_read(AT_FDCWD, path, text, sizeof(text)) < 0 || strstr(text, ") Z ");
}

/* The paths given to a janitor before cgroups_open() include those that it then creates. */
static void test_candidates(void)
{
        const char *paths[JANITOR_PATHS_MAX];
        struct error err = {0};
        char **candidates;

        check_ok(cgroups_candidates(&candidates, &err));
        struct cgroups *cgroups = open_cgroups();
        size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
        check(n > 0);
        for (size_t i = 0; i < n; i++) {
                size_t k = 0;
                while (candidates[k] && strcmp(candidates[k], paths[i]) != 0)
                        k++;
                check(candidates[k]);
        }
        cgroups_candidates_free(candidates);
        cgroups_free(cgroups);
}

/* A user who cannot create groups has no candidates. */
static int have_no_candidates(void)
{
        struct error err = {0};
        char **candidates;

        if (setresuid(65534, 65534, 65534) < 0 || cgroups_candidates(&candidates, &err) < 0)
                return 2;
        int n = candidates[0] != NULL;
        cgroups_candidates_free(candidates);
        return n;
}

/* The normal end of a monitor: it drops privileges, frees its groups, then the janitor runs. */
static int end_in_good_order(void)
{
        const char *paths[JANITOR_PATHS_MAX];
        char copies[JANITOR_PATHS_MAX][512];
        struct error err = {0};
        struct cgroups *cgroups = open_cgroups();
        int janitor, left = 0;

        size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
        for (size_t i = 0; i < n; i++)
                snprintf(copies[i], sizeof(copies[i]), "%s", paths[i]);
        pid_t pid = janitor_start(paths, n, NULL, &janitor, &err);
        check_ok(pid);
        check_ok(ids_drop_privilege(SANDBOX_ROOT, false, &err));
        struct cgroup *cgroup = new_leaf(cgroups, 64 << 20, 10);
        run_inside(cgroup, sleep_long);
        cgroup_free(cgroup);
        cgroups_free(cgroups);
        janitor_finish(pid, janitor, false);
        for (size_t i = 0; i < n; i++)
                left += !gone_within(copies[i], 3000);
        return left;
}

static void check_child(int (*fn)(void))
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(fn());
        check_eq_int(wait_for(pid), 0);
}

static void test_good_order(void)
{
        int64_t before = now_ms();

        check_child(end_in_good_order);
        check(now_ms() - before < 1000);
}

static void test_janitor(void)
{
        char path[512];
        pid_t sleeper;

        killed_monitor(true, path, &sleeper);
        check(gone_within(path, 3000));
        check(is_dead(sleeper));
}

/* Half a second after SIGKILL of its monitor. */
static int end_later(void)
{
        usleep(500 * 1000);
        return 0;
}

/* A server whose reaper ends it after the monitor's end is not killed before. The janitor then removes its group. */
static int end_with_server(int (*server)(void), int expected)
{
        const char *paths[JANITOR_PATHS_MAX];
        char own[512];
        struct error err = {0};
        struct cgroups *cgroups = open_cgroups();
        int janitor;

        size_t n = cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX), used = 0;
        /* Servers are not in version 1's hierarchy for processor time. */
        while (strstr(paths[used], "/cpu"))
                used++;
        snprintf(own, sizeof(own), "%s", paths[used]);
        pid_t cleaner = janitor_start(paths, n, NULL, &janitor, &err);
        check_ok(cleaner);
        check_ok(cgroups_set_servers(cgroups, 64 << 20, &err));
        pid_t pid = run_inside(server_leaf(cgroups), server);
        cgroups_free(cgroups);
        check(exists(own));
        janitor_finish(cleaner, janitor, true);
        int status = wait_for(pid);
        check_eq_int(WIFSIGNALED(status) ? WTERMSIG(status) : 0, expected);
        check(gone_within(own, 3000));
        wait_for(cleaner);
        return 0;
}

static int end_with_good_server(void)
{
        return end_with_server(end_later, 0);
}

static int end_with_bad_server(void)
{
        return end_with_server(sleep_long, SIGKILL);
}

static void test_servers_end_later(void)
{
        check_child(end_with_good_server);
        check_child(end_with_bad_server);
}

static void parent_directory(const char *path, char ret[512])
{
        snprintf(ret, 512, "%.*s", (int)(strrchr(path, '/') - path), path);
}

static void test_next_janitor_removes_stale_groups(void)
{
        char path[512];
        const char *own[JANITOR_PATHS_MAX];
        struct error err = {0};
        pid_t sleeper;
        struct cgroups *living = open_cgroups();
        int janitor;

        size_t n = cgroups_paths(living, own, JANITOR_PATHS_MAX);
        struct cgroup *leaf = new_leaf(living, 64 << 20, 10);
        pid_t inside = run_inside(leaf, sleep_long);
        killed_monitor(false, path, &sleeper);
        check(exists(path)); /* the control: without a janitor it remains */
        pid_t pid = janitor_start(own, n, NULL, &janitor, &err);
        check_ok(pid);
        check(gone_within(path, 20000));
        check(is_dead(sleeper));
        /* The group of a living monitor and its process are untouched. */
        for (size_t i = 0; i < n; i++)
                check(exists(own[i]));
        check(!is_dead(inside));
        cgroup_free(leaf);
        check_eq_int(WTERMSIG(wait_for(inside)), SIGKILL);
        cgroups_free(living);
        janitor_finish(pid, janitor, false);
}

/* The group of a monitor in another pid namespace: its pid means nothing here, the lock does. */
static void test_locked_groups_are_not_stale(void)
{
        struct cgroups *cgroups = open_cgroups();
        const char *own[1];
        char path[600], directory[512];

        check_eq_int(cgroups_paths(cgroups, own, 1), 1);
        parent_directory(own[0], directory);
        snprintf(path, sizeof(path), "%s/cloister-999999999-5", directory);
        check_eq_int(mkdir(path, 0755), 0);
        int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check_eq_int(flock(held, LOCK_EX | LOCK_NB), 0);
        stale_groups_remove(directory);
        check(exists(path));
        close(held);
        stale_groups_remove(directory);
        check(!exists(path));
        /* A start time that no process has, and that is not known of one that has ended. */
        snprintf(path, sizeof(path), "%s/cloister-999999999-0", directory);
        check_eq_int(mkdir(path, 0755), 0);
        stale_groups_remove(directory);
        check(!exists(path));
        cgroups_free(cgroups);
}

/* A leaf whose process ends later than cgroup_free() is removed by the loop's timer. */
static void test_busy_leaf_is_removed_later(void)
{
        struct event_base *base = event_base_new();
        struct cgroups *cgroups = open_cgroups();
        struct cgroup *leaf = new_leaf(cgroups, 64 << 20, 10);
        const char *paths[JANITOR_PATHS_MAX];
        char path[600];

        cgroups_paths(cgroups, paths, JANITOR_PATHS_MAX);
        snprintf(path, sizeof(path), "%s/sandboxes/s-7-1", paths[0]);
        check_eq_int(cgroups_set_loop(cgroups, base), 0);
        check(exists(path));
        pid_t pid = run_inside(leaf, sleep_long);
        int64_t before = now_ms();
        cgroup_free(leaf);
        check(now_ms() - before < 50);
        check_eq_int(WTERMSIG(wait_for(pid)), SIGKILL);
        for (int i = 0; i < 500 && exists(path); i++)
                event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), usleep(1000);
        check(!exists(path));
        cgroups_free(cgroups);
        event_base_free(base);
}

int main(void)
{
        if (geteuid() != 0) {
                run(test_none_says_why);
                return 0;
        }
        run(test_memory_is_bounded);
        run(test_sums_are_bounded);
        run(test_servers_are_bounded);
        run(test_supervisor);
        run(test_lower_cpu);
        run(test_machine_is_known);
        run(test_no_swap);
        run(test_pids_are_bounded);
        run(test_cpu_is_bounded_and_counted);
        run(test_kill_and_free);
        run(test_busy_leaf_is_removed_later);
        run(test_rest);
        run(test_rest_by_weight);
        run(test_freeze);
        run(test_free_removes_directories);
        run(test_candidates);
        check_child(have_no_candidates);
        run(test_good_order);
        run(test_janitor);
        run(test_servers_end_later);
        /* Where each cgroups_open() goes one group deeper, the next one does not see the previous
         * one's groups. */
        if (!getenv("CLOISTER_TEST_OURS")) {
                run(test_one_of_the_same_name);
                run(test_next_janitor_removes_stale_groups);
                run(test_locked_groups_are_not_stale);
        }
        return 0;
}
