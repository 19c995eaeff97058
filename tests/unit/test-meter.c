/* The kernel's counters as text. */
#include "supervisor/session/cell/meter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/test.h"

static int text_fd(const char *text)
{
        int fd = memfd_create("facts", MFD_CLOEXEC);

        check_eq_int(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        return fd;
}

static uint64_t cpu(enum monitor_usage kind, const char *text)
{
        int fd = text_fd(text);
        uint64_t us = meter_cpu_us(&(struct meter){.fds = {fd, -1, -1}}, kind);

        close(fd);
        return us;
}

static uint64_t memory(enum monitor_usage kind, const char *text)
{
        int fd = text_fd(text);
        uint64_t bytes = meter_most(&(struct meter){.fds = {-1, fd, -1}}, kind);

        close(fd);
        return bytes;
}

static uint64_t memory_now(enum monitor_usage kind, const char *text)
{
        int fd = text_fd(text);
        uint64_t bytes = meter_memory(&(struct meter){.fds = {-1, -1, fd}}, kind);

        close(fd);
        return bytes;
}

static void test_cgroup1(void)
{
        check_eq_int(cpu(MONITOR_USAGE_CGROUP1, "123456789\n"), 123456);
        check_eq_int(memory(MONITOR_USAGE_CGROUP1, "1048576\n"), 1048576);
}

static void test_cgroup2(void)
{
        check_eq_int(cpu(MONITOR_USAGE_CGROUP2, "usage_usec 777\nuser_usec 5\nsystem_usec 6\n"),
                     777);
        check_eq_int(cpu(MONITOR_USAGE_CGROUP2, "nr_periods 1\nusage_usec 42\n"), 42);
        check_eq_int(memory(MONITOR_USAGE_CGROUP2, "4096\n"), 4096);
        check_eq_int(memory_now(MONITOR_USAGE_CGROUP2, "2048\n"), 2048);
}

/* The name may hold spaces and parentheses; only its last one counts. */
static void test_proc(void)
{
        uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

        check_eq_int(cpu(MONITOR_USAGE_PROC,
                         "7 (py) S 9 9 (x) R 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 1 0 100 200"),
                     42 * tick);
        check_eq_int(
                memory(MONITOR_USAGE_PROC, "Name:\tpython\nVmPeak:\t99 kB\nVmHWM:\t   20 kB\n"),
                20 * 1024);
        check_eq_int(memory_now(MONITOR_USAGE_PROC, "VmHWM:\t   20 kB\nVmRSS:\t   10 kB\n"),
                     10 * 1024);
}

static bool resets_peak(enum monitor_usage kind, int fd)
{
        struct meter meter = {.fds = {-1, fd, -1}};

        meter_begin(&meter, kind, 0, 0);
        return meter.peak_is_reset;
}

/* A peak begins again where its file can be written to, and never that of a process. */
static void test_reset(void)
{
        int fd = text_fd("4096\n"), only_read = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

        check(resets_peak(MONITOR_USAGE_CGROUP1, fd));
        check(resets_peak(MONITOR_USAGE_CGROUP2, fd));
        check(!resets_peak(MONITOR_USAGE_PROC, fd));
        check(!resets_peak(MONITOR_USAGE_CGROUP2, only_read));
        check(!resets_peak(MONITOR_USAGE_CGROUP1, -1));
        close(fd);
        close(only_read);
}

static void test_nothing(void)
{
        static const enum monitor_usage kinds[] = {MONITOR_USAGE_CGROUP1, MONITOR_USAGE_CGROUP2,
                                                   MONITOR_USAGE_PROC};
        struct meter none;

        meter_init(&none);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                check_eq_int(meter_cpu_us(&none, kinds[i]), 0);
                check_eq_int(meter_most(&none, kinds[i]), 0);
                check_eq_int(cpu(kinds[i], "garbage"), 0);
                check_eq_int(memory(kinds[i], "garbage"), 0);
        }
}

int main(void)
{
        run(test_cgroup1);
        run(test_cgroup2);
        run(test_proc);
        run(test_reset);
        run(test_nothing);
        return 0;
}
