/*
 * How many calls were sent that a rule with "after" covers, by the rule's key (policy/rules/rule.h): of a session by cell and in
 * all, of a principal in the last hour. Nothing lowers a count: not a rollback, not a restored state, not a reload.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
        CALL_COUNTS_MAX = 4096,   /* rules that one session or principal has counts of */
        CALL_COUNTS_MINUTES = 61, /* an hour, and the minute that has begun */
};

struct call_counts {
        struct call_count *items;
        size_t n;
};

void call_counts_done(struct call_counts *counts);

/* Makes place for a rule's counts. Returns 0, -ENOMEM, or -E2BIG: the call must not be sent. */
int call_counts_reserve(struct call_counts *counts, uint64_t key);
/* One more was sent. cell: its number, 0: none. The place was reserved. */
void call_counts_add(struct call_counts *counts, uint64_t key, uint64_t cell, uint64_t now_us);

uint64_t call_counts_in_cell(const struct call_counts *counts, uint64_t key, uint64_t cell);
uint64_t call_counts_in_all(const struct call_counts *counts, uint64_t key);
uint64_t call_counts_in_hour(const struct call_counts *counts, uint64_t key, uint64_t now_us);

/* A branch continues the counts of its session. Returns 0 or -ENOMEM. */
int call_counts_copy(struct call_counts *to, const struct call_counts *from);
