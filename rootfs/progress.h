/* What a person sees of a build on standard error: a line that counts on a terminal, one line a
 * stage elsewhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
        bool quiet, terminal;
        const char *name; /* of the image */
        int64_t started_ms, shown_ms;
};

void progress_begin(struct progress *progress, const char *name, bool quiet);
/* "copying", "3,000 files": the stage, and what it works on. */
void progress_stage(struct progress *progress, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* Within a stage; shown on terminals only, ten times a second at most. */
void progress_count(struct progress *progress, const char *what, uint64_t done, uint64_t all);
/* Wipes the counting line, so that something else can be printed. */
void progress_clear(struct progress *progress);
double progress_seconds(const struct progress *progress);
