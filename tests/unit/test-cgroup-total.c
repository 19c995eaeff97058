/* The bounds of all sandboxes together follow from the groups above Cloister. */
#include "supervisor/monitor/cgroup/cgroup-total.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/monitor/cgroup/cgroup-files.h"
#include "supervisor/monitor/cgroup/cgroup.h"
#include "tests/unit/test.h"

/* The lowest of a group's limits counts, MemoryHigh= of a unit too: files of a directory stand in for the group. */
static void test_memory_of_a_group(void)
{
        static const struct {
                const char *max, *high;
                uint64_t limit;
        } cases[] = {
                {"max\n", "max\n", UINT64_MAX}, {"300\n", "max\n", 300}, {"max\n", "200\n", 200},
                {"300\n", "200\n", 200},        {"100\n", "200\n", 100},
        };
        char directory[] = "/tmp/test-cgroup-XXXXXX";

        check(mkdtemp(directory));
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(cgroup_memory_limit(fd) == UINT64_MAX);
        close(openat(fd, "memory.max", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        close(openat(fd, "memory.high", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                check_eq_int(cgroup_write(fd, "memory.max", cases[i].max), 0);
                check_eq_int(cgroup_write(fd, "memory.high", cases[i].high), 0);
                check(cgroup_memory_limit(fd) == cases[i].limit);
        }
        unlinkat(fd, "memory.max", 0);
        unlinkat(fd, "memory.high", 0);
        close(fd);
        rmdir(directory);
}

static struct cgroups *open_cgroups(void)
{
        struct cgroups *cgroups;
        struct error err = {0}, why = {0};

        check_ok(cgroups_open(getenv("CLOISTER_TEST_OURS") != NULL, &cgroups, &why, &err));
        return cgroups;
}

/* Of a file that one hierarchy has, by its path from "sandboxes"; -1: none has it. */
static long number_of(struct cgroups *cgroups, const char *file)
{
        const char *paths[CGROUP_PLACES_MAX];
        size_t n = cgroups_paths(cgroups, paths, CGROUP_PLACES_MAX);
        char path[600];
        long found = -1;

        for (size_t i = 0; i < n; i++) {
                snprintf(path, sizeof(path), "%s/sandboxes/%s", paths[i], file);
                found = access(path, F_OK) == 0 ? (long)cgroup_read_number(AT_FDCWD, path) : found;
        }
        return found;
}

static int run_child(int (*fn)(void))
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(fn());
        waitpid(pid, &status, 0);
        return status;
}

/* In a group of few processes, as a unit with TasksMax= is. */
static int have_few_processes(void)
{
        _cleanup_free_ struct cgroup_places *places = NULL;
        static const struct cgroup_total all = {384 << 20, 0};
        char group[PATH_MAX + 32];
        struct error err = {0};

        check_ok(cgroup_places_read(&places, &err));
        snprintf(group, sizeof(group), "%s/test-%d", cgroup_place_of(places, CGROUP_PIDS)->own,
                 getpid());
        check_eq_int(mkdir(group, 0700), 0);
        int fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check_eq_int(cgroup_write(fd, "pids.max", "1600"), 0);
        check_eq_int(cgroup_write_number(fd, "cgroup.procs", (uint64_t)getpid()), 0);
        struct cgroups *cgroups = open_cgroups();
        check_ok(cgroups_set_total(cgroups, 0, &all, &err));
        check_ok(cgroups_set_servers(cgroups, 64 << 20, &err));
        check_eq_int((int)number_of(cgroups, "pids.max"), 1200);
        check_eq_int((int)number_of(cgroups, "../servers/pids.max"), 300);
        cgroups_free(cgroups);
        check_eq_int(cgroup_write_number(fd, "../cgroup.procs", (uint64_t)getpid()), 0);
        close(fd);
        return rmdir(group);
}

/* On version 2 a group with processes of its own has no such groups. */
static void test_few_processes(void)
{
        struct cgroups *cgroups = open_cgroups();
        bool is_v1 = cgroups_version(cgroups) == CGROUP_V1;

        cgroups_free(cgroups);
        if (is_v1)
                check_eq_int(run_child(have_few_processes), 0);
}

int main(void)
{
        run(test_memory_of_a_group);
        if (geteuid() == 0)
                run(test_few_processes);
        return 0;
}
