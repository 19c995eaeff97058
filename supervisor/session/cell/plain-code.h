/*
 * Recognizes code of which it is certain what it does: it calculates with numbers.
 *
 * Each line of plain code is empty, an expression of decimal numbers, + - * / and parentheses, or such an expression that is
 * assigned to a name. No line reads a name, calls anything or changes an object, and no operator is ** or <<, so that the
 * code ends at once. A session in which only plain code has run has nothing that could run beside it: no thread, task, signal
 * handler, finalizer or hook.
 */
#pragma once

#include <stddef.h>

enum plain_code {
        PLAIN_NOT,     /* it may do anything */
        PLAIN_ASSIGNS, /* it sets names */
        PLAIN_VALUE,   /* all that it can change is the name "_" of the last value */
};

enum plain_code plain_code_of(const char *code, size_t n);
