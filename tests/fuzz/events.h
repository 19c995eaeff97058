/* Inputs whose lines are events: a letter, and what follows the byte behind it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_events {
        int most;                                    /* lines; the rest is left out */
        void (*handle)(char what, const char *rest); /* for each line that is not empty */
        void (*after)(void);                         /* for each line */
};

/* line: a line is copied to it as a string, and cut at its size. */
static inline void fuzz_each_event(const struct fuzz_events *events, const uint8_t *data, size_t n,
                                   char *line, size_t size)
{
        const char *at = (const char *)data, *last = at + n;

        for (int i = 0; at < last && i < events->most; i++) {
                const char *newline = memchr(at, '\n', (size_t)(last - at));
                size_t length = (size_t)((newline ? newline : last) - at);
                size_t kept = length < size ? length : size - 1;

                memcpy(line, at, kept);
                line[kept] = '\0';
                if (kept > 0)
                        events->handle(line[0], kept > 2 ? line + 2 : "");
                events->after();
                at += length + 1;
        }
}
