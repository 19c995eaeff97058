/* Progress of a build on standard error: on a terminal one line that is updated, elsewhere one line
 * for each stage. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
        bool quiet, terminal;
        const char *name; /* of the image */
        uint64_t started_ms, shown_ms;
        unsigned lines; /* that another program wrote */
};

void progress_begin(struct progress *progress, const char *name, bool quiet);
/* Begins a stage, such as "copying 3000 files". */
void progress_stage(struct progress *progress, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* Progress within a stage; only on a terminal, at most ten times a second. */
void progress_count(struct progress *progress, const char *what, uint64_t done, uint64_t all);
/* Clears the line, so that something else can be printed. */
void progress_clear(struct progress *progress);
double progress_seconds(const struct progress *progress);
