/* The code of `cloister run`. */
#include "supervisor/cli/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Bytes of the character at p (n are left), 0 when it is none. RFC 3629: no overlong forms, no
 * surrogates, nothing above U+10FFFF. */
static size_t character(const unsigned char *p, size_t n)
{
        static const struct {
                unsigned char first, last, low,
                        high; /* ranges of the first and of the second byte */
                size_t length;
        } forms[] = {
                {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
                {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                {0xf4, 0xf4, 0x80, 0x8f, 4},
        };

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                if (p[0] < forms[i].first || p[0] > forms[i].last)
                        continue;
                if (forms[i].length > n)
                        return 0;
                if (forms[i].length > 1 && (p[1] < forms[i].low || p[1] > forms[i].high))
                        return 0;
                for (size_t k = 2; k < forms[i].length; k++)
                        if ((p[k] & 0xc0) != 0x80)
                                return 0;
                return forms[i].length;
        }
        return 0;
}

int source_check(const char *name, const char *text, size_t length, struct error *err)
{
        const unsigned char *p = (const unsigned char *)text;
        size_t line = 1;

        for (size_t i = 0; i < length;) {
                size_t n = character(p + i, length - i);
                if (n == 0)
                        return error_set(err, EILSEQ, "%s: line %zu: byte 0x%02x is not UTF-8",
                                         name, line, p[i]);
                line += p[i] == '\n';
                i += n;
        }
        return 0;
}

static int open_source(const char *path, struct error *err)
{
        struct stat st;

        if (strcmp(path, "-") == 0)
                return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_errno(err, errno, "%s", path);
        if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
                close(fd);
                return error_set(err, EISDIR, "%s: is a directory, not a Python file", path);
        }
        return fd;
}

int source_read(const char *path, char **ret, size_t *length, struct error *err)
{
        static const char mark[] = {'\xef', '\xbb', '\xbf'};
        const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
        _cleanup_free_ char *text = NULL;
        size_t n = 0;

        _cleanup_close_ int fd = open_source(path, err);
        if (fd < 0)
                return error_is_set(err) ? fd : error_errno(err, errno, "%s", name);
        int r = fd_read_whole(fd, SOURCE_MAX, &text, &n, err);
        if (r == -EFBIG)
                return error_set(err, EFBIG, "%s: larger than the %d MiB that code may have", name,
                                 SOURCE_MAX / 1024 / 1024);
        if (r < 0)
                return error_context(err, "%s", name);
        if (n >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
                n -= sizeof(mark);
                memmove(text, text + sizeof(mark), n + 1);
        }
        r = source_check(name, text, n, err);
        if (r < 0)
                return r;
        *ret = take_ptr(text);
        *length = n;
        return 0;
}
