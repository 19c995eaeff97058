/*
 * An error message for a person: what failed, why, and what to do next, in one line.
 *
 * The function that fails sets it; each caller may add its context:
 *
 *     start sandbox 7f3: cgroup: open pids.max: No such file or directory
 *
 * The struct is flat and of fixed size and nothing here allocates, so that it is valid between
 * clone and exec and crosses a socket as one message. err may be NULL in every function.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error {
        int32_t code;   /* 0: none; else a positive errno value */
        char text[508]; /* NUL-terminated; cut at the end when too long */
};

static inline bool error_is_set(const struct error *err)
{
        return err && err->code != 0;
}

/* Sets the error. code is a positive errno value. Returns -code. */
int error_set(struct error *err, int code, const char *format, ...)
        __attribute__((format(printf, 3, 4), cold));

/* Like error_set(), followed by ": " and the text of strerror(3) for the code. Returns -code. */
int error_errno(struct error *err, int code, const char *format, ...)
        __attribute__((format(printf, 3, 4), cold));

/* Puts "context: " before the text of an error that is set. Returns -err->code (-EIO when err is
 * NULL). */
int error_context(struct error *err, const char *format, ...)
        __attribute__((format(printf, 2, 3), cold));

/* Makes an error that was received from a peer valid: terminates the text, replaces a code that is out
 * of range. */
void error_sanitize(struct error *err);
