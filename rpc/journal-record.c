/* Records of the journal. */
#include "rpc/journal-record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void journal_time(char ret[JOURNAL_TIME_SIZE])
{
        struct timespec now;
        struct tm tm;

        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &tm);
        size_t n = strftime(ret, JOURNAL_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(ret + n, JOURNAL_TIME_SIZE - n, ".%03uZ", (unsigned)(now.tv_nsec / 1000000));
}

void journal_record_begin(struct json_out *out, uint64_t n, const char *kind, const char *prev)
{
        char t[JOURNAL_TIME_SIZE];

        journal_time(t);
        json_out_begin(out, NULL, '{');
        json_out_int(out, "n", (int64_t)n);
        json_out_text(out, "t", t);
        json_out_text(out, "kind", kind);
        json_out_text(out, "prev", prev);
}
