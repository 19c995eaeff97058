/*
 * The command lines of the internal executables (broker, monitor, doctor) as tables. They are
 * written by `cloister` and by the monitor, never by people: "--name value" or "--name", no
 * abbreviations.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum argument_kind {
        ARGUMENT_TEXT,       /* const char * at the offset; borrowed from argv */
        ARGUMENT_FLAG,       /* bool at the offset; takes no value */
        ARGUMENT_NUMBER,     /* int at the offset; decimal, not negative */
        ARGUMENT_LIST,       /* texts as above, in an array: ARGUMENT_LIST_IN() */
        ARGUMENT_LOG_LEVEL,  /* int at the offset: an enum log_level */
        ARGUMENT_LOG_FORMAT, /* int at the offset: an enum log_format */
        ARGUMENT_CALL, /* take(); -EINVAL: the value is wrong, -E2BIG: the option is given too often */
};

struct argument {
        const char *name; /* "--json" */
        enum argument_kind kind;
        size_t offset;
        size_t length; /* of a list: the offset of its length, a size_t */
        size_t most;   /* of a list: how many elements its array has */
        int (*take)(void *to, const char *value);
};

#define ARGUMENT_LIST_IN(type, array, n)                                                           \
        .offset = offsetof(type, array), .length = offsetof(type, n),                              \
        .most = sizeof(((type *)0)->array) / sizeof(((type *)0)->array[0])

/* Parses the option at argv[0], which starts with '-', into `to`; argv is NULL-terminated. Returns
 * the number of arguments consumed, 1 or 2. */
int argument_take(const struct argument *table, size_t n, char **argv, void *to, struct error *err);
