/* Files that tell about the machine, and its processors. */
#include "sandbox-init/init/machine-files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox-init/init/caller.h"
#include "sandbox-init/init/init-clock.h"
#include "sandbox-init/init/rest.h"

enum {
        FRESH_MS = 50,
        NAME_SIZE = 64,
        PROCESSORS_MAX = 256, /* that are listed */
        TEXT_SIZE = 64 * 1024,
        MASK_SIZE = 1024, /* of 8,192 processors */
        TICKS_PER_S = 100,
};

/* Of all processes of the session, at measured_ms. */
struct usage {
        uint64_t memory;       /* bytes */
        uint64_t user, system; /* clock ticks, also of processes that have ended */
        unsigned int processes;
};

static struct {
        uint64_t memory_max;
        uint32_t cpu_milli;
        unsigned int processors;
        int64_t opened_ms, measured_ms;
        bool (*is_copy)(pid_t pid);
        struct usage usage;
        struct utsname kernel;
        size_t length; /* of text */
        char text[TEXT_SIZE];
} machine;

static unsigned int count_bits(const unsigned char *mask, size_t n)
{
        unsigned int count = 0;

        for (size_t i = 0; i < n; i++)
                count += (unsigned int)__builtin_popcount(mask[i]);
        return count;
}

/* How many of this number of processors the session may use. */
static unsigned int at_most(unsigned int processors)
{
        unsigned int limit = (machine.cpu_milli + 999) / 1000;

        return limit > 0 && limit < processors ? limit : processors;
}

void machine_open(const struct init_hello *hello, bool (*is_copy)(pid_t pid))
{
        unsigned char mask[MASK_SIZE];
        long n = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);

        machine.memory_max = hello->memory;
        machine.cpu_milli = hello->cpu_milli;
        machine.processors = at_most(n > 0 ? count_bits(mask, (size_t)n) : 1);
        if (machine.processors > PROCESSORS_MAX)
                machine.processors = PROCESSORS_MAX;
        machine.opened_ms = machine.measured_ms = init_clock_ms();
        machine.is_copy = is_copy;
        uname(&machine.kernel);
}

/* ---- what the session uses ---- */

/* Returns false if there is no such file. */
static bool read_of(pid_t pid, const char *name, char *text, size_t size)
{
        char path[32];

        snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
        int fd = openat(INIT_PROC_FD, path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
        if (fd >= 0)
                close(fd);
        text[n < 0 ? 0 : n] = '\0';
        return n > 0;
}

static size_t add_one(pid_t pid, void *data)
{
        struct usage *u = data;
        unsigned long long times[4] = {}, pages[2] = {};
        char text[512];

        u->processes++;
        /* The name of a program may have spaces and brackets. */
        const char *end = read_of(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
        if (end && sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu",
                          &times[0], &times[1], &times[2], &times[3]) == 4) {
                u->user += times[0] + times[2];
                u->system += times[1] + times[3];
        }
        if (!machine.is_copy(pid) && read_of(pid, "statm", text, sizeof(text)) &&
            sscanf(text, "%*u %llu %llu", &pages[0], &pages[1]) == 2 && pages[0] > pages[1])
                u->memory += (pages[0] - pages[1]) * (uint64_t)sysconf(_SC_PAGESIZE);
        return 1;
}

static void measure(void)
{
        struct usage now = {};
        struct statfs files;
        int64_t ms = init_clock_ms();

        if (ms < machine.measured_ms + FRESH_MS && machine.usage.processes > 0)
                return;
        machine.measured_ms = ms;
        rest_each(add_one, &now);
        if (fstatfs(INIT_WORKSPACE_FD, &files) == 0)
                now.memory += (files.f_blocks - files.f_bfree) * (uint64_t)files.f_bsize;
        if (now.memory > machine.memory_max)
                now.memory = machine.memory_max;
        /* The times of a process whose parent ignores its end are lost. */
        if (now.user < machine.usage.user)
                now.user = machine.usage.user;
        if (now.system < machine.usage.system)
                now.system = machine.usage.system;
        machine.usage = now;
}

/* ---- the texts ---- */

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        int n = vsnprintf(machine.text + machine.length, TEXT_SIZE - machine.length, format,
                          arguments);
        va_end(arguments);
        if (n > 0)
                machine.length += (size_t)n;
        if (machine.length >= TEXT_SIZE)
                machine.length = TEXT_SIZE - 1;
}

static uint64_t age_in_ticks(void)
{
        return (uint64_t)(machine.measured_ms - machine.opened_ms) * TICKS_PER_S / 1000;
}

/* Of all processors together. */
static uint64_t idle_ticks(void)
{
        uint64_t all = age_in_ticks() * machine.processors,
                 used = machine.usage.user + machine.usage.system;

        return used < all ? all - used : 0;
}

static void put_meminfo(void)
{
        const struct {
                const char *name;
                uint64_t bytes;
        } rows[] = {
                {"MemTotal", machine.memory_max},
                {"MemFree", machine.memory_max - machine.usage.memory},
                {"MemAvailable", machine.memory_max - machine.usage.memory},
                {"Buffers", 0},
                {"Cached", 0},
                {"SwapCached", 0},
                {"Active", machine.usage.memory},
                {"Inactive", 0},
                {"SwapTotal", 0},
                {"SwapFree", 0},
                {"Dirty", 0},
                {"Writeback", 0},
                {"AnonPages", machine.usage.memory},
                {"Mapped", 0},
                {"Shmem", 0},
                {"Slab", 0},
                {"SReclaimable", 0},
                {"SUnreclaim", 0},
                {"CommitLimit", machine.memory_max},
                {"Committed_AS", machine.usage.memory},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                put("%s:%*s%8llu kB\n", rows[i].name, (int)(15 - strlen(rows[i].name)), "",
                    (unsigned long long)rows[i].bytes / 1024);
}

static void put_times(const char *name, unsigned int share)
{
        put("%s %llu 0 %llu %llu 0 0 0 0 0 0\n", name,
            (unsigned long long)machine.usage.user / share,
            (unsigned long long)machine.usage.system / share,
            (unsigned long long)idle_ticks() / share);
}

/* btime: the times of processes in /proc/PID/stat count from there, by the clocks that code can read. */
static void put_stat(void)
{
        char name[16];

        put_times("cpu ", 1);
        for (unsigned int i = 0; i < machine.processors; i++) {
                snprintf(name, sizeof(name), "cpu%u", i);
                put_times(name, machine.processors);
        }
        put("intr 0\nctxt 0\nbtime %lld\nprocesses %u\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
            (long long)((init_clock_ns(CLOCK_REALTIME) - init_clock_ns(CLOCK_BOOTTIME)) /
                        1000000000),
            machine.usage.processes);
}

static void put_cpuinfo(void)
{
        for (unsigned int i = 0; i < machine.processors; i++)
                put("processor\t: %u\nmodel name\t: %s\nphysical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: %u\n\n",
                    i, machine.kernel.machine, machine.processors, i, machine.processors);
}

static void put_uptime(void)
{
        uint64_t age = age_in_ticks(), idle = idle_ticks();

        put("%llu.%02u %llu.%02u\n", (unsigned long long)age / TICKS_PER_S,
            (unsigned int)(age % TICKS_PER_S), (unsigned long long)idle / TICKS_PER_S,
            (unsigned int)(idle % TICKS_PER_S));
}

static void put_loadavg(void)
{
        put("0.00 0.00 0.00 1/%u 1\n", machine.usage.processes);
}

static void put_version(void)
{
        put("%s version %s %s\n", machine.kernel.sysname, machine.kernel.release,
            machine.kernel.version);
}

static void put_release(void)
{
        put("%s\n", machine.kernel.release);
}

static void put_vmstat(void)
{
        put("pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\n");
}

static void put_filesystems(void)
{
        put("nodev\tproc\nnodev\ttmpfs\n");
}

static void put_swaps(void)
{
        put("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
}

static void put_online(void)
{
        put(machine.processors > 1 ? "0-%u\n" : "%u\n", machine.processors - 1);
}

static void put_cpu_max(void)
{
        if (machine.cpu_milli > 0)
                put("%u 100000\n", machine.cpu_milli * 100);
        else
                put("max 100000\n");
}

static void put_memory_max(void)
{
        put("%llu\n", (unsigned long long)machine.memory_max);
}

static void put_memory_current(void)
{
        put("%llu\n", (unsigned long long)machine.usage.memory);
}

static const struct {
        const char *path;
        void (*put)(void);
} files[] = {
        {"/proc/meminfo", put_meminfo},
        {"/proc/stat", put_stat},
        {"/proc/cpuinfo", put_cpuinfo},
        {"/proc/uptime", put_uptime},
        {"/proc/loadavg", put_loadavg},
        {"/proc/version", put_version},
        {"/proc/vmstat", put_vmstat},
        {"/proc/filesystems", put_filesystems},
        {"/proc/swaps", put_swaps},
        {"/proc/sys/kernel/osrelease", put_release},
        {"/sys/devices/system/cpu/online", put_online},
        {"/sys/devices/system/cpu/possible", put_online},
        {"/sys/devices/system/cpu/present", put_online},
        {"/sys/fs/cgroup/cpu.max", put_cpu_max},
        {"/sys/fs/cgroup/memory.max", put_memory_max},
        {"/sys/fs/cgroup/memory.current", put_memory_current},
};

/* ---- the calls ---- */

/* Reads the begin of a path of the caller. Returns its place in the table, or -1. */
static int find(pid_t thread, uint64_t at)
{
        const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = page - at % page;
        char path[NAME_SIZE] = "";
        struct iovec here = {path, sizeof(path)};
        /* The kernel copies whole parts; the page after the end of the path may not exist. */
        struct iovec there[] = {{(void *)at, first < NAME_SIZE ? first : NAME_SIZE}, // NOLINT
                                {(void *)(at + first),                               // NOLINT
                                 first < NAME_SIZE ? NAME_SIZE - first : 0}};

        ssize_t n = process_vm_readv(thread, &here, 1, there, 2, 0);
        if (n <= 0 || !memchr(path, '\0', (size_t)n))
                return -1;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                if (strcmp(path, files[i].path) == 0)
                        return (int)i;
        }
        return -1;
}

/* Returns a descriptor for reading of a new file without a name, or negative errno. */
static int new_file(void)
{
        char own[32];
        int fd = openat(INIT_WORKSPACE_FD, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0444);

        if (fd < 0)
                return -errno;
        int r = fd_write_all(fd, machine.text, machine.length);
        snprintf(own, sizeof(own), "self/fd/%d", fd);
        if (r >= 0)
                r = openat(INIT_PROC_FD, own, O_RDONLY | O_CLOEXEC);
        if (r == -1)
                r = -errno;
        close(fd);
        return r;
}

static int call_open(int listener, const struct seccomp_notif *request, uint64_t path)
{
        uint64_t id = request->id;
        int i = find((pid_t)request->pid, path);

        /* The process may have ended before it was read, and another one have its number. */
        if (i < 0 || ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0)
                return CALL_GOES_ON;
        measure();
        machine.length = 0;
        files[i].put();
        int fd = new_file();
        if (fd < 0)
                return CALL_GOES_ON;
        struct seccomp_notif_addfd add = {
                .id = id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)fd};
        int r = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : CALL_BEGUN;
        close(fd);
        return r == -EMFILE ? r : CALL_BEGUN;
}

/* Leaves as many processors as the session may use: those with the lowest numbers. */
static void limit(unsigned char *mask, size_t n)
{
        unsigned int left = at_most(count_bits(mask, n));

        for (size_t i = 0; i < n; i++) {
                for (unsigned int bit = 1; bit < 256; bit <<= 1) {
                        if ((mask[i] & bit) && left > 0)
                                left--;
                        else
                                mask[i] &= (unsigned char)~bit;
                }
        }
}

static int call_affinity(int listener, const struct seccomp_notif *request)
{
        unsigned char mask[MASK_SIZE] __attribute__((aligned(8)));
        const __u64 *a = request->data.args;
        pid_t thread = (pid_t)a[0] ?: (pid_t)request->pid;
        /* The kernel reads an unsigned int. */
        uint32_t size = (uint32_t)a[1] < sizeof(mask) ? (uint32_t)a[1] : sizeof(mask);

        long n = syscall(SYS_sched_getaffinity, thread, size, mask);
        if (n < 0)
                return -errno;
        limit(mask, (size_t)n);
        struct caller c = {.process = (pid_t)request->pid};
        uint64_t id = request->id;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) < 0)
                return CALL_BEGUN;
        int r = caller_copy_memory(&c, a[2], mask, (size_t)n, true);
        if (r < 0)
                return CALL_GOES_ON;
        struct seccomp_notif_resp response = {.id = id, .val = n};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
        return CALL_BEGUN;
}

static bool is_open(int call)
{
#ifdef SYS_open
        if (call == SYS_open)
                return true;
#endif
        return call == SYS_openat;
}

bool machine_is_asked(int call)
{
        return is_open(call) || call == SYS_sched_getaffinity;
}

int machine_call(int listener, const struct seccomp_notif *request)
{
        if (!is_open(request->data.nr))
                return call_affinity(listener, request);
        return call_open(listener, request,
                         request->data.args[request->data.nr == SYS_openat ? 1 : 0]);
}
