/* The first record of a segment. */
#include "supervisor/journal/after.h"

#include "base/cleanup.h"
#include "supervisor/journal/chain.h"
#include "supervisor/journal/lines.h"
#include "supervisor/journal/segments.h"

uint32_t segment_after(int directory, uint32_t number)
{
        static struct journal_lines lines;
        struct chain chain;
        struct chain_record record;
        const char *line;
        uint32_t after = 0;
        size_t n;

        _cleanup_close_ int fd = segment_open(directory, number, false, NULL);
        if (fd < 0)
                return 0;
        journal_lines_init(&lines, fd);
        if (journal_lines_next(&lines, &line, &n, NULL) <= 0)
                return 0;
        chain_begin_at(&chain, line, n);
        if (chain_next(&chain, line, n, &record, NULL) < 0)
                return 0;
        after = record.segment == number ? record.after : 0;
        chain_record_done(&record);
        return after;
}
