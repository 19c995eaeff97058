/*
 * Monotonic time. clock.c is the only file of the product that reads CLOCK_MONOTONIC.
 *
 * The time is counted from an arbitrary point and never decreases: only differences have a meaning.
 *
 * A unit test moves the clock, and with it the timers of libevent, by linking tests/unit/fake-clock.c
 * (see its header); code that is tested needs nothing but to take its time from here.
 */
#pragma once

#include <stdint.h>
#include <sys/time.h>

uint64_t clock_us(void);
uint64_t clock_ms(void);
/* Returns the time since the boot as clock_us() does, with the time in which the machine was suspended. */
uint64_t clock_boot_us(void);

/* A duration, as libevent takes it. */
struct timeval clock_timeval_ms(uint64_t ms);
