/* The CPU time and the memory of a session's sandbox, and what part of them one cell used. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rpc/monitor-messages.h"
#include "supervisor/session/cell/cell.h"

struct meter {
        int fds[SESSION_COUNTERS]; /* kernel counters, from SESSION_CPU on; -1: none */
        uint64_t last_peak;        /* at the end of the last cell */
        uint64_t most;      /* the highest use that is known: the kernel's counter may be reset */
        bool peak_is_reset; /* the counter was reset when the running cell started */
        struct {
                uint64_t now, most;       /* most: since the running cell started */
                uint64_t grown, grown_us; /* the interpreter's own peak, when it last grew */
        } sampled; /* by the monitor, where no control group counts memory. 0: unknown */
};

/* No sandbox exists. */
void meter_init(struct meter *meter);
/* Takes ownership of the descriptors, in the order of SESSION_CPU to SESSION_MEMORY. */
void meter_open(struct meter *meter, const int fds[SESSION_COUNTERS]);
/* A copy of the worker continues with other counters. */
void meter_replace(struct meter *meter, const int fds[SESSION_COUNTERS]);
void meter_close(struct meter *meter);

/* The monitor has sampled the memory of all processes of the sandbox. */
void meter_sample(struct meter *meter, uint64_t bytes);
/* A higher use is known. */
void meter_keep(struct meter *meter, uint64_t bytes);

/* A cell starts: its peak is measured alone, where the kernel can do that. idle_us: since the cell before. */
void meter_begin(struct meter *meter, enum monitor_usage kind, uint64_t now_us, uint64_t idle_us);
/* It has ended. ended: the monitor's counters if the sandbox has ended, or NULL. */
void meter_end(struct meter *meter, enum monitor_usage kind, const struct monitor_ended *ended,
               uint64_t *cpu_us, uint64_t *peak, enum cell_peak *peak_of);

/* Since the sandbox started, now, and the most. In µs and bytes; 0: unknown. */
uint64_t meter_cpu_us(const struct meter *meter, enum monitor_usage kind);
uint64_t meter_memory(const struct meter *meter, enum monitor_usage kind);
uint64_t meter_most(const struct meter *meter, enum monitor_usage kind);
