/* Measures the memory and the CPU time of cells. */
#include "supervisor/session/cell/meter.h"

#include "base/clock.h"
#include "base/fd.h"

/* The session's peak does not count what tasks of the code allocate and free again in so short a time between two cells:
 * reading the counter once more takes a fiftieth of a short call. */
enum { BACK_TO_BACK_US = 1000 };

/* The monitor samples each session within this time. */
enum { SAMPLE_US = 250000 };

static_assert(SESSION_MEMORY_PEAK == SESSION_CPU + 1 && SESSION_MEMORY == SESSION_CPU + 2,
              "the order of the counters");

void meter_init(struct meter *m)
{
        *m = (struct meter){.cpu_fd = -1, .peak_fd = -1, .memory_fd = -1};
}

void meter_open(struct meter *m, const int fds[SESSION_COUNTERS])
{
        *m = (struct meter){.cpu_fd = fds[0], .peak_fd = fds[1], .memory_fd = fds[2]};
}

static void close_counters(const struct meter *m)
{
        int fds[] = {m->cpu_fd, m->peak_fd, m->memory_fd};

        fd_close_many(fds, ARRAY_SIZE(fds));
}

void meter_replace(struct meter *m, const int fds[SESSION_COUNTERS])
{
        close_counters(m);
        m->cpu_fd = fds[0];
        m->peak_fd = fds[1];
        m->memory_fd = fds[2];
        m->last_peak = 0;
}

void meter_close(struct meter *m)
{
        close_counters(m);
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
                before = usage_memory_peak(kind, m->peak_fd);
        m->peak_is_reset = usage_reset_peak(kind, m->peak_fd);
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
                *cpu_us = usage_cpu_us(kind, m->cpu_fd);
                *peak = m->last_peak = usage_memory_peak(kind, m->peak_fd);
        }
        if (kind == MONITOR_USAGE_PROC && (sampled = end_sampled(m, before, *peak)) > 0)
                *peak = sampled;
        *ret_peak_of = peak_of(m, kind, ended != NULL);
}

uint64_t meter_cpu_us(const struct meter *m, enum monitor_usage kind)
{
        return usage_cpu_us(kind, m->cpu_fd);
}

uint64_t meter_memory(const struct meter *m, enum monitor_usage kind)
{
        return usage_memory(kind, m->memory_fd);
}

uint64_t meter_most(const struct meter *m, enum monitor_usage kind)
{
        uint64_t peak = usage_memory_peak(kind, m->peak_fd);

        return peak > m->most ? peak : m->most;
}
