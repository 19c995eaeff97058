/* Lines of a file that may grow. */
#include "supervisor/journal/lines.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void journal_lines_init(struct journal_lines *lines, int fd)
{
        lines->fd = fd;
        lines->offset = lines->read = 0;
        lines->start = lines->length = 0;
}

/* Returns the bytes that were read, or negative errno. */
static ssize_t fill(struct journal_lines *lines)
{
        memmove(lines->bytes, lines->bytes + lines->start, lines->length);
        lines->start = 0;
        ssize_t n = pread(lines->fd, lines->bytes + lines->length,
                          sizeof(lines->bytes) - lines->length, lines->read);
        if (n < 0)
                return -errno;
        lines->length += (size_t)n;
        lines->read += n;
        return n;
}

int journal_lines_next(struct journal_lines *lines, const char **ret, size_t *n, struct error *err)
{
        const char *end;

        while (!(end = memchr(lines->bytes + lines->start, '\n', lines->length))) {
                if (lines->length >= JOURNAL_RECORD_MAX)
                        return error_set(err, EMSGSIZE, "a line is longer than %d bytes",
                                         JOURNAL_RECORD_MAX);
                ssize_t r = fill(lines);
                if (r <= 0)
                        return r < 0 ? error_errno(err, (int)-r, "read") : 0;
        }
        *ret = lines->bytes + lines->start;
        *n = (size_t)(end - *ret) + 1;
        if (*n > JOURNAL_RECORD_MAX)
                return error_set(err, EMSGSIZE, "a line is longer than %d bytes",
                                 JOURNAL_RECORD_MAX);
        lines->start += *n;
        lines->length -= *n;
        lines->offset += (off_t)*n;
        return 1;
}

size_t journal_lines_torn(const struct journal_lines *lines)
{
        return lines->length;
}

int journal_lines_last(int fd, const char **ret, size_t *n, off_t *end, struct error *err)
{
        static char bytes[2 * JOURNAL_RECORD_MAX];
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_errno(err, errno, "read");
        off_t from = st.st_size > (off_t)sizeof(bytes) ? st.st_size - (off_t)sizeof(bytes) : 0;
        ssize_t length = pread(fd, bytes, sizeof(bytes), from);
        if (length < 0)
                return error_errno(err, errno, "read");
        const char *newline = memrchr(bytes, '\n', (size_t)length);
        *end = newline ? from + (newline - bytes) + 1 : 0;
        if (!newline)
                return from == 0 ? 0 : error_set(err, EMSGSIZE, "its last line is too long");
        const char *before = memrchr(bytes, '\n', (size_t)(newline - bytes));
        if (!before && from > 0)
                return error_set(err, EMSGSIZE, "its last line is too long");
        *ret = before ? before + 1 : bytes;
        *n = (size_t)(newline - *ret) + 1;
        return 1;
}
