/* Files of the journal, which anybody may have changed: records as a chain, and heads. */
#include "supervisor/journal/chain.h"
#include "supervisor/journal/heads.h"
#include "supervisor/journal/lines.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Heads that are not signed are refused, so that no part of the records can pass as one. */
static void read_as_heads(int fd)
{
        static struct journal_lines lines;
        struct journal_head head;

        journal_lines_init(&lines, fd);
        while (heads_next(&lines, &head, NULL) > 0)
                assert(head.segment > 0 && strlen(head.key) == JOURNAL_HASH_SIZE - 1);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        static struct journal_lines lines;
        struct chain_record record;
        struct chain chain;
        const char *line;
        size_t length;
        uint64_t records = 0;
        int r;

        int fd = memfd_create("journal", MFD_CLOEXEC);
        assert(fd >= 0 && write(fd, data, n) == (ssize_t)n);
        journal_lines_init(&lines, fd);
        chain_begin(&chain);
        while ((r = journal_lines_next(&lines, &line, &length, NULL)) > 0) {
                assert(length > 0 && length <= JOURNAL_RECORD_MAX && line[length - 1] == '\n');
                r = chain_next(&chain, line, length, &record, NULL);
                if (r < 0)
                        break;
                assert(record.n == ++records && chain.n == records && record.kind);
                chain_record_done(&record);
        }
        assert(lines.offset <= (off_t)n);
        read_as_heads(fd);
        close(fd);
        return r == 0 && records > 0 && journal_lines_torn(&lines) == 0;
}

FUZZ_TARGET
