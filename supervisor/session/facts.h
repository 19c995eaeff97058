/* What the kernel says a session has used, read from the descriptors of SESSION_STARTED. */
#pragma once

#include <stdint.h>

#include "supervisor/monitor/messages.h"

/* CPU time since the session began; 0 when it cannot be read. */
uint64_t facts_cpu_us(enum monitor_facts kind, int fd);

/* Highest memory use since the session began, and the present one, in bytes; 0 when it cannot be
 * read. */
uint64_t facts_memory_peak(enum monitor_facts kind, int fd);
uint64_t facts_memory(enum monitor_facts kind, int fd);
