/* Receipts of a session's last cells. */
#include "supervisor/session/cell/receipts.h"

#include <stdlib.h>

#include "base/json.h"
#include "tests/unit/test.h"

static struct receipts receipts;

static void outcome_init(struct cell_outcome *o, size_t n_calls)
{
        *o = (struct cell_outcome){.state = CELL_STATE_KEPT,
                                   .peak_of = CELL_PEAK_CELL,
                                   .memory_peak = 4096,
                                   .cpu_us = 7,
                                   .n_calls = n_calls,
                                   .calls_total = n_calls};
        o->calls = calloc(CELL_CALLS_KEPT, sizeof(*o->calls));
        for (size_t i = 0; i < n_calls; i++) {
                o->calls[i].used = true;
                memset(o->calls[i].server, '\1', CELL_NAME_MAX); /* six bytes each, as JSON */
                memset(o->calls[i].tool, 'b', CELL_NAME_MAX);
        }
}

static yyjson_val *receipt_of(uint64_t cell, bool whole)
{
        static struct buffer text;
        static yyjson_doc *doc;
        struct json_out out = {.to = &text};

        buffer_done(&text);
        buffer_init(&text, 1 << 20);
        yyjson_doc_free(doc);
        doc = NULL;
        receipts_put(&out, receipts_find(&receipts, cell), whole);
        check_eq_int(out.error, 0);
        check_eq_int(json_parse(buffer_bytes(&text), text.length, &doc, NULL), 0);
        return yyjson_doc_get_root(doc);
}

static void test_outcomes_of_calls(void)
{
        struct cell_outcome o;

        outcome_init(&o, 4);
        o.calls[0].ok = true;
        o.calls[1].pending = true;
        o.calls[2].used = false;
        receipts_add(&receipts, 5, &o);
        yyjson_val *calls = yyjson_obj_get(receipt_of(5, true), "tool_calls");
        check_eq_int((int)yyjson_arr_size(calls), 3);
        check_eq_str(json_string(yyjson_arr_get(calls, 0), "outcome", NULL), "ok");
        check_eq_str(json_string(yyjson_arr_get(calls, 1), "outcome", NULL), "in doubt");
        check_eq_str(json_string(yyjson_arr_get(calls, 2), "outcome", NULL), "failed");
        check(!yyjson_obj_get(receipt_of(5, false), "tool_calls"));
        check(!receipts_find(&receipts, 4) && !receipts_find(&receipts, 0));
        free(o.calls);
        receipts_done(&receipts);
        check(!receipts_find(&receipts, 5));
}

/* Numbers and bytes are bounded, and a list above its limit is left out while its totals stay. */
static void test_bounds(void)
{
        struct cell_outcome o;

        outcome_init(&o, 20);
        for (uint64_t cell = 1; cell <= 3 * RECEIPTS_MAX; cell++) {
                receipts_add(&receipts, cell, &o);
                check(receipts.bytes <= RECEIPTS_BYTES_MAX);
                check(receipts_find(&receipts, cell) && receipt_of(cell, true));
                check(yyjson_obj_get(receipt_of(cell, true), "tool_calls"));
        }
        check(!receipts_find(&receipts, 1));
        free(o.calls);

        outcome_init(&o, CELL_CALLS_KEPT);
        receipts_add(&receipts, 1000, &o);
        check(!yyjson_obj_get(receipt_of(1000, true), "tool_calls"));
        int64_t total = 0;
        check_eq_int(json_int64(yyjson_obj_get(receipt_of(1000, true), "tool_calls_total"), &total),
                     0);
        check_eq_int(total, CELL_CALLS_KEPT);
        free(o.calls);

        outcome_init(&o, 0);
        for (uint64_t cell = 2001; cell <= 2000 + 2 * RECEIPTS_MAX; cell++)
                receipts_add(&receipts, cell, &o);
        check(!receipts_find(&receipts, 2000 + RECEIPTS_MAX));
        check(receipts_find(&receipts, 2001 + RECEIPTS_MAX) != NULL);
        check_eq_int((int)receipts.bytes, 0);
        free(o.calls);
        receipts_done(&receipts);
}

static void add(uint64_t cell)
{
        const struct cell_outcome o = {.memory_peak = 4096, .peak_of = CELL_PEAK_SAMPLED};

        receipts_add(&receipts, cell, &o);
}

static int64_t number(uint64_t cell, const char *key)
{
        int64_t n = -1;

        json_int64(yyjson_obj_get(receipt_of(cell, false), key), &n);
        return n;
}

/* A number is of all cells that had none, and later cells keep out of it. */
static void test_tasks(void)
{
        check(!receipts_count(&receipts, 0, 9, 3, false));
        add(1);
        check_eq_int(number(1, "tasks_made"), -1);
        check(receipts_count(&receipts, 0, 1, 3, false));
        check_eq_int(number(1, "tasks_made"), 3);
        check_eq_int(number(1, "tasks_from_cell"), -1);
        add(2);
        add(4);
        add(5);
        check_eq_int(receipts_uncounted(&receipts, UINT64_MAX), 2);
        check(receipts_count(&receipts, 0, 4, 7, true));
        check_eq_int(number(1, "tasks_made"), 3);
        check_eq_int(number(2, "tasks_made"), 7);
        check_eq_int(number(4, "tasks_made"), 7);
        check_eq_int(number(4, "tasks_from_cell"), 2);
        check(yyjson_is_true(yyjson_obj_get(receipt_of(4, false), "tasks_at_least")));
        check_eq_int(number(5, "tasks_made"), -1);
        check(!receipts_count(&receipts, 0, 4, 1, false));
        check(receipts_count(&receipts, 3, 5, 0, false));
        check_eq_int(number(5, "tasks_made"), 0);
        check_eq_int(number(5, "tasks_from_cell"), 3);
        check_eq_str(json_string(receipt_of(5, false), "peak_of", NULL), "sampled");
        receipts_done(&receipts);
}

static void note_files(uint64_t to, size_t bytes)
{
        struct receipt_files files = {.number = {1, 0, 0}};

        buffer_init(&files.list, RECEIPT_FILES_MAX);
        check_eq_int(buffer_append(&files.list, "[", 1), 0);
        while (files.list.length + 5 < bytes)
                check_eq_int(buffer_append(&files.list, "null,", 5), 0);
        check_eq_int(buffer_append(&files.list, "null]", 5), 0);
        receipts_note_files(&receipts, to, &files);
        buffer_done(&files.list);
}

/* Lists of files count with those of calls; the oldest are dropped. */
static void test_files(void)
{
        struct cell_outcome o;
        int64_t n = 0;

        outcome_init(&o, 0);
        check(!receipts_lack_files(&receipts));
        for (uint64_t cell = 1; cell <= 10; cell++) {
                receipts_add(&receipts, cell, &o);
                check(receipts_lack_files(&receipts));
                note_files(cell, 30000);
                check(!receipts_lack_files(&receipts));
                check(receipts.bytes <= RECEIPTS_BYTES_MAX);
                check(yyjson_obj_get(receipt_of(cell, true), "files"));
                check(!yyjson_obj_get(receipt_of(cell, false), "files"));
        }
        check(!receipts_find(&receipts, 5) && receipts_find(&receipts, 8));
        /* A scan that began before the cell ended does not belong to the cell. */
        receipts_add(&receipts, 11, &o);
        note_files(10, 100);
        check(receipts_lack_files(&receipts));
        /* More cells than there are receipts. */
        for (uint64_t cell = 12; cell <= 100; cell++)
                receipts_add(&receipts, cell, &o);
        note_files(99, 100);
        check(receipts_lack_files(&receipts));
        check(yyjson_obj_get(receipt_of(99, true), "files"));
        check_eq_int(json_int64(yyjson_obj_get(receipt_of(80, true), "files_from_cell"), &n), 0);
        check_eq_int(n, 101 - RECEIPTS_MAX);
        check_eq_int(json_int64(yyjson_obj_get(receipt_of(80, true), "files_to_cell"), &n), 0);
        check_eq_int(n, 99);
        free(o.calls);
        receipts_done(&receipts);
        check_eq_int((int)receipts.bytes, 0);
}

int main(void)
{
        run(test_outcomes_of_calls);
        run(test_bounds);
        run(test_tasks);
        run(test_files);
        return 0;
}
