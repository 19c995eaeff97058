/* A stream of lines in pieces. The first two bytes are the size of the pieces and the longest line.
 * Accepted when no line is too long and the last one has its newline. */
#include "rpc/lines.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* Each line is a part of the input, after the previous line. */
static const char *check_line(const char *from, const char *end, const char *line, size_t n)
{
        const char *found = n > 0 ? memmem(from, (size_t)(end - from), line, n) : from;

        assert(found && !memchr(line, '\n', n));
        return found + n;
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct lines lines;
        const char *line = NULL, *from = (const char *)data + 2, *end = (const char *)data + n;
        size_t length = 0;
        bool good = true;
        int r;

        if (n < 2)
                return false;
        size_t piece = 1 + data[0], most = 1 + data[1];
        lines_init(&lines, most);
        for (size_t at = 2; at < n; at += piece) {
                assert(lines_feed(&lines, data + at, n - at < piece ? n - at : piece) == 0);
                while ((r = lines_next(&lines, &line, &length)) != 0) {
                        assert((r == 1 || r == -EMSGSIZE) && length <= most);
                        from = check_line(from, end, line, length);
                        good = good && r == 1;
                }
                assert(lines.buffer.length <= most + 2 + piece);
        }
        if (lines_rest(&lines, &line, &length) == 1) {
                check_line(from, end, line, length);
                good = false;
        }
        lines_done(&lines);
        return good && n > 2 && data[n - 1] == '\n';
}

FUZZ_TARGET
