/* The beginning of each record of the journal, which broker and cloister-journal write (docs/journal.md). */
#pragma once

#include <stdint.h>

#include "base/json-out.h"

/* Writes {"n", "t", "kind", "prev"; the caller adds members and the bracket. prev: SHA-256 of the line before. */
void journal_record_begin(struct json_out *out, uint64_t n, const char *kind, const char *prev);

/* The time of the calendar as in records: 2026-01-31T12:00:00.123Z. */
enum { JOURNAL_TIME_SIZE = 40 };
void journal_time(char ret[JOURNAL_TIME_SIZE]);
