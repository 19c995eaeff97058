/* Progress of a build on standard error. */
#include "rootfs/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/printable.h"

void progress_begin(struct progress *progress, const char *name, bool quiet)
{
        *progress = (struct progress){
                .quiet = quiet,
                .terminal = isatty(STDERR_FILENO) == 1,
                .name = name,
                .started_ms = clock_ms(),
        };
}

void progress_stage(struct progress *progress, const char *format, ...)
{
        char raw[256], text[2 * sizeof(raw)];
        va_list args;

        if (progress->quiet)
                return;
        va_start(args, format);
        vsnprintf(raw, sizeof(raw), format, args);
        va_end(args);
        printable_escape(text, sizeof(text), raw); /* may be a line of an installer */
        fprintf(stderr, "%scloister: image %s: %s%s", progress->terminal ? "\r\033[K" : "",
                progress->name, text, progress->terminal ? " …" : "\n");
        fflush(stderr);
        progress->shown_ms = clock_ms();
}

void progress_count(struct progress *progress, const char *what, uint64_t done, uint64_t all)
{
        if (progress->quiet || !progress->terminal || clock_ms() - progress->shown_ms < 100)
                return;
        progress->shown_ms = clock_ms();
        fprintf(stderr, "\r\033[Kcloister: image %s: %s %" PRIu64 " of %" PRIu64, progress->name,
                what, done, all);
        fflush(stderr);
}

void progress_clear(struct progress *progress)
{
        if (progress->quiet || !progress->terminal)
                return;
        fputs("\r\033[K", stderr);
        fflush(stderr);
}

double progress_seconds(const struct progress *progress)
{
        return (double)(clock_ms() - progress->started_ms) / 1000.0;
}
