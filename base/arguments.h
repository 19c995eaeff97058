/*
 * The command lines of the internal executables (broker, monitor, doctor) as tables. They are
 * written by `cloister` and by the monitor, never by people: "--name value" or "--name", no
 * abbreviations.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum argument_kind {
        ARGUMENT_TEXT,   /* const char * at the offset; borrowed from argv */
        ARGUMENT_FLAG,   /* bool at the offset; takes no value */
        ARGUMENT_NUMBER, /* int at the offset; decimal, not negative */
        ARGUMENT_CALL, /* take(); -EINVAL: the value is wrong, -E2BIG: the option is given too often */
};

struct argument {
        const char *name; /* "--json" */
        enum argument_kind kind;
        size_t offset;
        int (*take)(void *to, const char *value);
};

/* Parses the option at argv[0], which starts with '-', into `to`; argv is NULL-terminated. Returns
 * the number of arguments consumed, 1 or 2. */
int argument_take(const struct argument *table, size_t n, char **argv, void *to, struct error *err);
