/* What the kernel says a session has used, read from the descriptors of SESSION_STARTED. */
#pragma once

#include <stdint.h>

#include "rpc/monitor-messages.h"

/* CPU time since the session began; 0 when it cannot be read. */
uint64_t usage_cpu_us(enum monitor_usage kind, int fd);

/* Highest memory use since the session began, and the present one, in bytes; 0 when it cannot be
 * read. */
uint64_t usage_memory_peak(enum monitor_usage kind, int fd);
uint64_t usage_memory(enum monitor_usage kind, int fd);

/* The peak as read last, and how many page faults the process had had by then. Zero at first. */
struct usage_peak {
        uint64_t faults, bytes;
};

/*
 * Both as at the end of a cell. Of a process, the peak is read only when it has had a page fault
 * since: its memory does not grow without one, and the kernel takes longer to write that file than
 * all the rest of a short cell takes us.
 */
void usage_at_end(enum monitor_usage kind, int cpu_fd, int peak_fd, struct usage_peak *known,
                  uint64_t *cpu_us, uint64_t *peak);
