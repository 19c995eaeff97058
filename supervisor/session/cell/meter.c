/* Measures the memory and the CPU time of cells. */
#include "supervisor/session/cell/meter.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* The session's peak does not count what tasks of the code allocate and free again in so short a time between two cells:
 * reading the counter once more takes a fiftieth of a short call. */
enum { BACK_TO_BACK_US = 1000 };

/* The monitor samples each session within this time. */
enum { SAMPLE_US = 250000 };

enum { CPU, PEAK, MEMORY };
static_assert(SESSION_MEMORY_PEAK == SESSION_CPU + 1 && SESSION_MEMORY == SESSION_CPU + 2,
              "the order of the counters");

/* ---- the kernel's counters: 0 if one cannot be read ---- */

enum { TEXT_MAX = 4096 };

static const char *read_text(int fd, char text[TEXT_MAX])
{
        ssize_t n = fd < 0 ? -1 : pread(fd, text, TEXT_MAX - 1, 0);

        text[n < 0 ? 0 : n] = '\0';
        return text;
}

/* The number after a key at the start of a line; 0: there is none. */
static uint64_t number_of(const char *text, const char *key)
{
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, n) == 0)
                        return strtoull(line + n, NULL, 10);
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
        return at ? strtoull(at, NULL, 10) : 0;
}

static uint64_t ticks_to_us(uint64_t ticks)
{
        long a_second = sysconf(_SC_CLK_TCK);

        return a_second > 0 ? ticks * 1000000 / (uint64_t)a_second : 0;
}

uint64_t meter_cpu_us(const struct meter *m, enum monitor_usage kind)
{
        char text[TEXT_MAX] _uninitialized_;

        read_text(m->fds[CPU], text);
        if (kind == MONITOR_USAGE_CGROUP1)
                return strtoull(text, NULL, 10) / 1000;
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
        return strtoull(text, NULL, 10);
}

static uint64_t memory_peak(enum monitor_usage kind, int fd)
{
        return bytes_of(kind, fd, "VmHWM:");
}

/* Has the peak of a control group begin again at the present use. Returns whether the kernel does that: version 1, and version 2
 * from Linux 6.12 on, where it holds for readers of this descriptor only. */
static bool reset_peak(enum monitor_usage kind, int fd)
{
        return kind != MONITOR_USAGE_PROC && fd >= 0 && write(fd, "0", 1) == 1;
}

/* ---- what a cell uses ---- */

void meter_init(struct meter *m)
{
        *m = (struct meter){.fds = {-1, -1, -1}};
}

void meter_open(struct meter *m, const int fds[SESSION_COUNTERS])
{
        *m = (struct meter){};
        memcpy(m->fds, fds, sizeof(m->fds));
}

void meter_replace(struct meter *m, const int fds[SESSION_COUNTERS])
{
        fd_close_many(m->fds, SESSION_COUNTERS);
        memcpy(m->fds, fds, sizeof(m->fds));
        m->last_peak = 0;
}

void meter_close(struct meter *m)
{
        fd_close_many(m->fds, SESSION_COUNTERS);
        meter_init(m);
}

void meter_keep(struct meter *m, uint64_t bytes)
{
        if (bytes > m->most)
                m->most = bytes;
}

void meter_sample(struct meter *m, uint64_t bytes)
{
        m->sampled.now = bytes;
        if (bytes > m->sampled.most)
                m->sampled.most = bytes;
        meter_keep(m, bytes);
}

void meter_begin(struct meter *m, enum monitor_usage kind, uint64_t now_us, uint64_t idle_us)
{
        uint64_t before = 0;

        if (kind == MONITOR_USAGE_PROC) {
                m->sampled.most = m->sampled.now;
                /* A peak of the interpreter that the monitor has perhaps not sampled yet still holds. */
                if (now_us - m->sampled.grown_us < SAMPLE_US &&
                    m->sampled.grown > m->sampled.most && m->sampled.now > 0)
                        m->sampled.most = m->sampled.grown;
                return;
        }
        if (idle_us >= BACK_TO_BACK_US)
                before = memory_peak(kind, m->fds[PEAK]);
        m->peak_is_reset = reset_peak(kind, m->fds[PEAK]);
        if (m->peak_is_reset)
                meter_keep(m, before);
}

/* The interpreter's own peak, which is known exactly, belongs to this cell if it has grown in it. 0: no sample. */
static uint64_t end_sampled(struct meter *m, uint64_t before, uint64_t peak)
{
        if (peak > before) {
                m->sampled.grown = peak;
                m->sampled.grown_us = clock_us();
        }
        if (peak > before && m->sampled.most > 0 && peak > m->sampled.most)
                m->sampled.most = peak;
        return m->sampled.most;
}

/* ended: the monitor reads the counter by its own descriptor, which version 2 does not reset. */
static enum cell_peak peak_of(const struct meter *m, enum monitor_usage kind, bool ended)
{
        if (kind == MONITOR_USAGE_PROC)
                return m->sampled.most > 0 ? CELL_PEAK_SAMPLED : CELL_PEAK_PROCESS;
        if (!m->peak_is_reset || (ended && kind == MONITOR_USAGE_CGROUP2))
                return CELL_PEAK_SESSION;
        return CELL_PEAK_CELL;
}

void meter_end(struct meter *m, enum monitor_usage kind, const struct monitor_ended *ended,
               uint64_t *cpu_us, uint64_t *peak, enum cell_peak *ret_peak_of)
{
        uint64_t sampled, before = m->last_peak;

        if (ended) {
                *cpu_us = ended->cpu_usec;
                *peak = ended->memory_peak;
        } else {
                *cpu_us = meter_cpu_us(m, kind);
                *peak = m->last_peak = memory_peak(kind, m->fds[PEAK]);
        }
        if (kind == MONITOR_USAGE_PROC && (sampled = end_sampled(m, before, *peak)) > 0)
                *peak = sampled;
        *ret_peak_of = peak_of(m, kind, ended != NULL);
}

uint64_t meter_memory(const struct meter *m, enum monitor_usage kind)
{
        return bytes_of(kind, m->fds[MEMORY], "VmRSS:");
}

uint64_t meter_most(const struct meter *m, enum monitor_usage kind)
{
        uint64_t peak = memory_peak(kind, m->fds[PEAK]);

        return peak > m->most ? peak : m->most;
}
