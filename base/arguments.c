/* The command lines of the internal executables. */
#include "base/arguments.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static int take_number(int *to, const char *text)
{
        char *end = NULL;

        errno = 0;
        long n = strtol(text, &end, 10);
        if (end == text || *end != '\0' || errno != 0 || n < 0 || n > INT_MAX)
                return -EINVAL;
        *to = (int)n;
        return 0;
}

static int take_list(const struct argument *argument, const char *value, void *to)
{
        const char **list = (const char **)(void *)((char *)to + argument->offset);
        size_t *n = (size_t *)(void *)((char *)to + argument->length);

        if (*n == argument->most)
                return -E2BIG;
        list[(*n)++] = value;
        return 0;
}

static int take_log_level(int *to, const char *value)
{
        *to = log_level_from_name(value);
        return *to < 0 ? -EINVAL : 0;
}

static int take_log_format(int *to, const char *value)
{
        *to = log_format_from_name(value);
        return *to < 0 ? -EINVAL : 0;
}

static int take_value(const struct argument *argument, const char *value, void *to)
{
        void *member = (char *)to + argument->offset;

        switch (argument->kind) {
        case ARGUMENT_TEXT:
                *(const char **)member = value;
                return 0;
        case ARGUMENT_FLAG:
                *(bool *)member = true;
                return 0;
        case ARGUMENT_NUMBER:
                return take_number(member, value);
        case ARGUMENT_LIST:
                return take_list(argument, value, to);
        case ARGUMENT_LOG_LEVEL:
                return take_log_level(member, value);
        case ARGUMENT_LOG_FORMAT:
                return take_log_format(member, value);
        case ARGUMENT_CALL:
                return argument->take(to, value);
        }
        return -EINVAL;
}

int argument_take(const struct argument *table, size_t n, char **argv, void *to, struct error *err)
{
        for (size_t i = 0; i < n; i++) {
                if (strcmp(table[i].name, argv[0]) != 0)
                        continue;
                bool flag = table[i].kind == ARGUMENT_FLAG;
                if (!flag && !argv[1])
                        return error_set(err, EINVAL, "%s needs a value", argv[0]);
                int r = take_value(&table[i], argv[1], to);
                if (r == -E2BIG)
                        return error_set(err, E2BIG, "%s is given too often", argv[0]);
                if (r < 0)
                        return error_set(err, EINVAL, "%s: bad value '%s'", argv[0], argv[1]);
                return flag ? 1 : 2;
        }
        return error_set(err, EINVAL, "unknown option '%s'", argv[0]);
}
