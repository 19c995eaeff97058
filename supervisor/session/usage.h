/* Kernel counters of a session, read from the descriptors of SESSION_STARTED. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rpc/monitor-messages.h"

/* CPU time since the sandbox started; 0 if it cannot be read. */
uint64_t usage_cpu_us(enum monitor_usage kind, int fd);

/* The peak memory use since the sandbox started, and the current one, in bytes; 0 if it cannot be
 * read. */
uint64_t usage_memory_peak(enum monitor_usage kind, int fd);
uint64_t usage_memory(enum monitor_usage kind, int fd);

/* Has the peak of a control group begin again at the present use. Returns whether the kernel does that: version 1, and version 2
 * from Linux 6.12 on, where it holds for readers of this descriptor only. */
bool usage_reset_peak(enum monitor_usage kind, int fd);

/* The peak as read last, and the number of page faults before that. Zero at first. */
struct usage_peak {
        uint64_t faults, bytes;
};

/*
 * CPU time and peak at the end of a cell. If they are those of a process, the peak is read again
 * only after a page fault: without one its memory has not grown, and the kernel takes longer to
 * format /proc/PID/status than the broker needs for the rest of a short cell.
 */
void usage_at_end(enum monitor_usage kind, int cpu_fd, int peak_fd, struct usage_peak *known,
                  uint64_t *cpu_us, uint64_t *peak);
