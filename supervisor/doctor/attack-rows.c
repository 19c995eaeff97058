/* The rows of the battery: taken from the probe's lines, printed as a table or as JSON. */
#include "supervisor/doctor/attack-rows.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json-out.h"

enum { REPORT_MAX = 4 * 1024 * 1024, FIELDS = 7, SPECULATION = 127 };

static const char *const verdict_names[] = {[ATTACK_HELD] = "held",
                                            [ATTACK_OPEN] = "open",
                                            [ATTACK_UNTRIED] = "untried",
                                            [ATTACK_KNOWN] = "known"};
static_assert(ARRAY_SIZE(verdict_names) == ATTACK_VERDICT_MAX, "a name for each verdict");

void attack_rows_done(struct attack_rows *rows)
{
        free(rows->items);
        *rows = (struct attack_rows){};
}

/* The text may come from the sandbox: it must not control a terminal. */
static void copy(char *to, size_t size, const char *text)
{
        snprintf(to, size, "%s", text);
        for (; *to; to++) {
                if (*to == '\t')
                        *to = ' ';
                else if (*to < 0x20 || *to >= 0x7f)
                        *to = '?';
        }
}

void attack_add(struct attack_rows *rows, int number, const char *group, const char *item,
                const char *expected, const char *found, enum attack_verdict verdict)
{
        if (rows->n == ATTACK_ROWS_MAX)
                rows->error = -E2BIG;
        else if (!rows->items && !(rows->items = calloc(ATTACK_ROWS_MAX, sizeof(*rows->items))))
                rows->error = -ENOMEM;
        if (rows->error < 0)
                return;
        struct attack_row *row = &rows->items[rows->n++];
        row->number = number;
        row->verdict = verdict;
        rows->of[verdict]++;
        copy(row->group, sizeof(row->group), group);
        copy(row->item, sizeof(row->item), item);
        copy(row->expected, sizeof(row->expected), expected);
        copy(row->found, sizeof(row->found), found);
}

/* Cuts the line at its tabs. Returns the number of fields, FIELDS + 1 for too many. */
static size_t split(char *line, char *fields[FIELDS])
{
        size_t n = 0;

        for (char *next = line; next; n++) {
                char *field = strsep(&next, "\t");
                if (n == FIELDS)
                        return n + 1;
                fields[n] = field;
        }
        return n;
}

int attack_take_line(struct attack_rows *rows, char *line, size_t *count)
{
        char *fields[FIELDS];
        size_t n = split(line, fields);

        if (n == 2 && strcmp(fields[0], "end") == 0) {
                *count = strtoul(fields[1], NULL, 10);
                return 1;
        }
        if (n != FIELDS || strcmp(fields[0], "row") != 0)
                return -EPROTO;
        for (size_t i = 0; i < ATTACK_KNOWN; i++) { /* what is known is for us to say */
                if (strcmp(fields[6], verdict_names[i]) != 0)
                        continue;
                attack_add(rows, (int)strtol(fields[1], NULL, 10), fields[2], fields[3], fields[4],
                           fields[5], (enum attack_verdict)i);
                return rows->error;
        }
        return -EPROTO;
}

int attack_print_table(const struct attack_rows *rows, const char *profile, bool colour)
{
        static const char *const colours[] = {"\033[32m", "\033[31m", "\033[33m", "\033[33m"};

        printf("%5s  %-44s  %-26s  %-26s\n", "class", "item", "expected", "found");
        for (size_t i = 0; i < rows->n; i++) {
                const struct attack_row *row = &rows->items[i];
                char item[sizeof(row->group) + sizeof(row->item) + 2];
                snprintf(item, sizeof(item), "%s: %s", row->group, row->item);
                printf("%5d  %-44s  %-26s  %-26s  %s%s%s\n", row->number, item, row->expected,
                       row->found, colour ? colours[row->verdict] : "", verdict_names[row->verdict],
                       colour ? "\033[0m" : "");
        }
        printf("\nProfile %s: %zu held, %zu open, %zu known, %zu untried.\n", profile,
               rows->of[ATTACK_HELD], rows->of[ATTACK_OPEN], rows->of[ATTACK_KNOWN],
               rows->of[ATTACK_UNTRIED]);
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -EIO;
}

static void json_row(struct json_out *out, const struct attack_row *row)
{
        json_out_begin(out, NULL, '{');
        json_out_int(out, "class", row->number);
        json_out_text(out, "group", row->group);
        json_out_text(out, "item", row->item);
        json_out_text(out, "expected", row->expected);
        json_out_text(out, "found", row->found);
        json_out_text(out, "verdict", verdict_names[row->verdict]);
        json_out_end(out, '}');
}

int attack_print_json(const struct attack_rows *rows, const char *profile, bool allowed)
{
        _cleanup_buffer_ struct buffer b = BUFFER_INIT(REPORT_MAX);
        struct json_out out = {.to = &b, .indent = true};

        json_out_begin(&out, NULL, '{');
        for (size_t i = 0; i < ARRAY_SIZE(verdict_names); i++)
                json_out_int(&out, verdict_names[i], (int64_t)rows->of[i]);
        json_out_bool(&out, "known_are_allowed", allowed);
        json_out_text(&out, "profile", profile);
        json_out_begin(&out, "rows", '[');
        for (size_t i = 0; i < rows->n; i++)
                json_row(&out, &rows->items[i]);
        json_out_end(&out, ']');
        json_out_end(&out, '}');
        int r = out.error < 0 ? out.error : buffer_append(&b, "\n", 1);
        return r < 0 ? r : fd_write_all(STDOUT_FILENO, buffer_bytes(&b), b.length);
}

/* ---- speculation ---- */

/* "vulnerable" alone: the processor offers nothing that could be set. */
static bool is_open(const char *value)
{
        return strcmp(value, "thread vulnerable") == 0 || strcmp(value, "conditional enabled") == 0;
}

void attack_add_speculation(struct attack_rows *rows, const char *role, const char *status)
{
        static const char line[] = "\nSpeculation_Store_Bypass:\t";
        const char *at = strstr(status, line);
        char found[64] = "cannot be read";

        if (at)
                snprintf(found, sizeof(found), "%.*s", (int)strcspn(at + strlen(line), "\n"),
                         at + strlen(line));
        attack_add(rows, SPECULATION, role, "speculative store bypass", "not left to it", found,
                   !at              ? ATTACK_UNTRIED
                   : is_open(found) ? ATTACK_OPEN
                                    : ATTACK_HELD);
}

static bool is_of_guest(const struct attack_row *row)
{
        return strcmp(row->group, "worker") == 0 || strcmp(row->group, "identity") == 0;
}

void attack_allow_speculation(struct attack_rows *rows)
{
        for (size_t i = 0; i < rows->n; i++) {
                struct attack_row *row = &rows->items[i];
                if (row->number != SPECULATION || row->verdict != ATTACK_OPEN ||
                    !is_of_guest(row) || !is_open(row->found))
                        continue;
                row->verdict = ATTACK_KNOWN;
                rows->of[ATTACK_OPEN]--;
                rows->of[ATTACK_KNOWN]++;
                snprintf(row->found, sizeof(row->found), "%s",
                         "not mitigated for this process: set \"speculation\": \"disabled\"");
        }
}
