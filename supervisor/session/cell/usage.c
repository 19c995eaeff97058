/* Kernel counters of a session. */
#include "supervisor/session/cell/usage.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { TEXT_MAX = 4096 };

static const char *read_text(int fd, char text[TEXT_MAX])
{
        ssize_t n = fd < 0 ? -1 : pread(fd, text, TEXT_MAX - 1, 0);

        text[n < 0 ? 0 : n] = '\0';
        return text;
}

/* The decimal number at the start, after blanks. */
static uint64_t number_at(const char *text)
{
        uint64_t number = 0;

        while (*text == ' ' || *text == '\t')
                text++;
        while (*text >= '0' && *text <= '9')
                number = number * 10 + (uint64_t)(*text++ - '0');
        return number;
}

/* The number after a key at the start of a line; 0: there is none. */
static uint64_t number_of(const char *text, const char *key)
{
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, n) == 0)
                        return number_at(line + n);
        }
        return 0;
}

/* Fields of /proc/PID/stat (proc_pid_stat(5)). */
enum { STAT_UTIME = 14, STAT_STIME = 15 };

/* Field 2, the name, may contain anything; it ends at the last ')'. */
static uint64_t field_of(const char *text, int wanted)
{
        const char *at = strrchr(text, ')');

        for (int field = 2; at && field < wanted; field++) {
                at = strchr(at, ' ');
                at = at ? at + 1 : NULL;
        }
        return at ? number_at(at) : 0;
}

static uint64_t ticks_to_us(uint64_t ticks)
{
        long a_second = sysconf(_SC_CLK_TCK);

        return a_second > 0 ? ticks * 1000000 / (uint64_t)a_second : 0;
}

uint64_t usage_cpu_us(enum monitor_usage kind, int fd)
{
        char text[TEXT_MAX] _uninitialized_;

        read_text(fd, text);
        if (kind == MONITOR_USAGE_CGROUP1)
                return number_at(text) / 1000;
        if (kind == MONITOR_USAGE_CGROUP2)
                return number_of(text, "usage_usec ");
        return ticks_to_us(field_of(text, STAT_UTIME) + field_of(text, STAT_STIME));
}

/* A cgroup file holds only the number; in /proc it follows a key and is in KiB. */
static uint64_t bytes_of(enum monitor_usage kind, int fd, const char *key)
{
        char text[TEXT_MAX] _uninitialized_;

        read_text(fd, text);
        if (kind == MONITOR_USAGE_PROC)
                return number_of(text, key) * 1024;
        return number_at(text);
}

uint64_t usage_memory_peak(enum monitor_usage kind, int fd)
{
        return bytes_of(kind, fd, "VmHWM:");
}

bool usage_reset_peak(enum monitor_usage kind, int fd)
{
        return kind != MONITOR_USAGE_PROC && fd >= 0 && write(fd, "0", 1) == 1;
}

uint64_t usage_memory(enum monitor_usage kind, int fd)
{
        return bytes_of(kind, fd, "VmRSS:");
}
