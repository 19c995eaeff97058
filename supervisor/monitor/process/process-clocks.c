/* The CPU clocks of the processes of a sandbox. */
#include "supervisor/monitor/process/process-clocks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/monitor/process/process-tree.h"

enum { STATUS_SIZE = 4096 };

/* The clock of all threads of a process, also of those that have ended (clock_getcpuclockid(3)). 0: it cannot be read. */
static uint64_t read_clock(pid_t pid)
{
        struct timespec t;

        if (clock_gettime((~(clockid_t)pid << 3) | 2, &t) < 0)
                return 0;
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Its pid in its own pid namespace is the last one of the line. 0: it has ended. */
static long inner_pid(pid_t pid)
{
        static const char key[] = "\nNSpid:";
        char path[32], text[STATUS_SIZE];
        long inner = 0;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);
        text[n < 0 ? 0 : n] = '\0';
        const char *at = strstr(text, key);
        at = at ? at + strlen(key) : "";
        while (*at == '\t')
                inner = strtol(at, (char **)&at, 10);
        return inner;
}

void process_clocks_find(struct process_clocks *c, pid_t init)
{
        pid_t pids[PROCESS_CLOCKS_MAX + 1];

        c->n = 0;
        size_t n = process_children(init, pids, 0, ARRAY_SIZE(pids));
        for (size_t i = 0; i < n && n <= PROCESS_CLOCKS_MAX; i++) {
                c->of[i] = (struct process_clock){.pid = pids[i], .inner = inner_pid(pids[i])};
                n = process_children(pids[i], pids, n, ARRAY_SIZE(pids));
        }
        c->n = n <= PROCESS_CLOCKS_MAX ? n : 0;
}

void process_clocks_read(struct process_clocks *c)
{
        for (size_t i = 0; i < c->n; i++) {
                c->of[i].ns = read_clock(c->of[i].pid);
                if (c->of[i].ns == 0)
                        c->n = 0;
        }
}

static bool has(const struct process_clocks *c, long inner)
{
        for (size_t i = 0; i < c->n; i++) {
                if (c->of[i].inner == inner)
                        return true;
        }
        return false;
}

bool process_clocks_are_of(const struct process_clocks *c, const struct process_growth *growth)
{
        size_t found = 0;

        for (size_t i = 0; i < growth->n; i++) {
                if (growth->seen[i].pid == 1)
                        continue;
                if (!has(c, growth->seen[i].pid))
                        return false;
                found++;
        }
        return c->n > 0 && found == c->n;
}

/* The second figure of proc_uptime(5) is of all processors. */
int64_t process_clocks_of_others(void)
{
        char text[64];
        struct timespec since, own;
        long long seconds, hundredths;

        _cleanup_close_ int fd = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : fd_read_full(fd, text, sizeof(text) - 1);
        text[n < 0 ? 0 : n] = '\0';
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        if (sscanf(text, "%*s %lld.%2lld", &seconds, &hundredths) != 2 || processors < 1 ||
            clock_gettime(CLOCK_BOOTTIME, &since) < 0 ||
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) < 0)
                return INT64_MAX;
        return (since.tv_sec * 1000000LL + since.tv_nsec / 1000) * processors - seconds * 1000000 -
               hundredths * 10000 - (own.tv_sec * 1000000LL + own.tv_nsec / 1000);
}

bool process_clocks_stand_still(const struct process_clocks *c)
{
        for (size_t i = 0; i < c->n; i++) {
                if (read_clock(c->of[i].pid) != c->of[i].ns)
                        return false;
        }
        return c->n > 0;
}
