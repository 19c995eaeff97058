/* The language of a profile's code, and the memory that its runtime reserves. */
#pragma once

#include <stdint.h>

enum language { LANGUAGE_PYTHON, LANGUAGE_JAVASCRIPT, LANGUAGE_MAX };

/* "python" and so on, in the order of the enum, then NULL. */
extern const char *const language_names[];
/* Returns a language, or -1. */
int language_parse(const char *name);

/*
 * V8 reserves 512 MiB of address space, writable and executable, for the code of each isolate (each thread that runs JavaScript).
 * RLIMIT_DATA counts that, although hardly any of it becomes memory. Where no control group counts a session's memory,
 * the monitor's sum bounds it, and RLIMIT_DATA is the limit of memory plus this for each isolate.
 */
enum { LANGUAGE_ISOLATES_MAX = 4 };
#define LANGUAGE_ISOLATE_BYTES (640UL * 1024 * 1024)

/* RLIMIT_DATA of a session with this limit of memory. */
static inline uint64_t language_data_limit(uint32_t language, uint64_t memory)
{
        return language == LANGUAGE_JAVASCRIPT
                       ? memory + LANGUAGE_ISOLATES_MAX * LANGUAGE_ISOLATE_BYTES
                       : memory;
}
