/* One line an event on standard error. */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const level_names[] = {
        [LOG_LEVEL_ERROR] = "error",
        [LOG_LEVEL_WARNING] = "warning",
        [LOG_LEVEL_INFO] = "info",
        [LOG_LEVEL_DEBUG] = "debug",
};
static_assert(sizeof(level_names) / sizeof(level_names[0]) == LOG_LEVEL_MAX, "a name a level");

static enum log_level threshold = LOG_LEVEL_WARNING;
static const char *program = "cloister";

void log_set_level(enum log_level level)
{
        threshold = level;
}

enum log_level log_get_level(void)
{
        return threshold;
}

const char *log_level_name(enum log_level level)
{
        return level_names[level];
}

int log_level_from_name(const char *name)
{
        for (int i = 0; i < LOG_LEVEL_MAX; i++) {
                if (strcmp(level_names[i], name) == 0)
                        return i;
        }
        return -EINVAL;
}

void log_set_name(const char *name)
{
        program = name;
}

/* C1 controls are two bytes in UTF-8. Other bytes from 0x80 on stay: they are text. */
static bool is_c1(const unsigned char *c)
{
        return c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
}

static size_t escape(char *to, size_t size, const char *from)
{
        const unsigned char *c = (const unsigned char *)from;
        size_t n = 0;

        while (*c && n + 9 < size) {
                if (is_c1(c)) {
                        n += (size_t)snprintf(to + n, size - n, "\\x%02x\\x%02x", c[0], c[1]);
                        c += 2;
                        continue;
                }
                if (*c < 0x20 || *c == 0x7f)
                        n += (size_t)snprintf(to + n, size - n, "\\x%02x", *c);
                else
                        to[n++] = (char)*c;
                c++;
        }
        return n;
}

void log_write(enum log_level level, const char *format, ...)
{
        char text[2048], line[4096];
        va_list args;

        if (level > threshold)
                return;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);

        int n = snprintf(line, sizeof(line), "%s: %s: ", program, level_names[level]);
        size_t length = (size_t)n;
        length += escape(line + length, sizeof(line) - length - 1, text);
        line[length++] = '\n';
        /* One write, so that lines of several processes do not mix; a log that cannot be written is
         * lost. */
        ssize_t written = write(STDERR_FILENO, line, length);
        (void)written;
}
