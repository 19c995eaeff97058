/* The lines that the probe of `doctor --attack` prints in a sandbox: what is taken cannot control a
 * terminal, and the rows are bounded. Accepted is a text that ends with the number of its rows. */
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "supervisor/doctor/attack-rows.h"

static void check_text(const char *text, size_t size)
{
        assert(memchr(text, '\0', size));
        for (; *text; text++)
                assert(*text >= 0x20 && *text < 0x7f);
}

static void check_rows(const struct attack_rows *rows)
{
        size_t sum = 0;

        assert(rows->n <= ATTACK_ROWS_MAX);
        for (size_t i = 0; i < rows->n; i++) {
                const struct attack_row *row = &rows->items[i];
                check_text(row->group, sizeof(row->group));
                check_text(row->item, sizeof(row->item));
                check_text(row->expected, sizeof(row->expected));
                check_text(row->found, sizeof(row->found));
        }
        for (size_t i = 0; i < ATTACK_VERDICT_MAX; i++)
                sum += rows->of[i];
        assert(sum == rows->n);
}

bool fuzz_accepts(const uint8_t *data, size_t n)
{
        struct attack_rows rows = {};
        size_t count = 0;
        int r = 0;

        _cleanup_free_ char *text = strndup((const char *)data, n);
        assert(text);
        for (char *rest = text; r == 0 && rest;) {
                char *line = strsep(&rest, "\n");
                if (rest) /* a whole line */
                        r = attack_take_line(&rows, line, &count);
        }
        check_rows(&rows);
        bool accepted = r == 1 && count == rows.n;
        attack_rows_done(&rows);
        return accepted;
}

FUZZ_TARGET
