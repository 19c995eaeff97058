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
