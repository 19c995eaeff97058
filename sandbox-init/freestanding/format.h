/*
 * The conversions of printf that messages use: %d %i %u %x %o %c %s %p %%, the lengths hh h
 * l ll z j, the flags 0 and -, width and precision (also as *). No floating point and no locale.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* As vsnprintf(): text is NUL-terminated and cut at size; returns the length that it would have,
 * -1 for a conversion that is not among these. */
int format_text(char *text, size_t size, const char *format, va_list args)
        __attribute__((format(printf, 3, 0)));
