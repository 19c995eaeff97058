/* Reads what a person has typed. */
#include "supervisor/trust/questions/approval-answer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* "1-12,15" */
static bool read_rows(const char *text, uint8_t *rows, size_t *last_row)
{
        memset(rows, 0, APPROVAL_CALLS_MAX);
        for (;;) {
                char *end;
                if (*text < '1' || *text > '9')
                        return false;
                unsigned long first = strtoul(text, &end, 10), last = first;
                if (*end == '-' && end[1] >= '1' && end[1] <= '9')
                        last = strtoul(end + 1, &end, 10);
                if (last < first || last > APPROVAL_CALLS_MAX)
                        return false;
                memset(rows + first - 1, 1, last - first + 1);
                *last_row = last > *last_row ? last : *last_row;
                if (*end == '\0')
                        return true;
                if (*end != ',')
                        return false;
                text = end + 1;
        }
}

int approval_answer_read(const char *word, uint8_t *rows, struct approval_answer *ret,
                         struct error *err)
{
        bool is_yes = strcmp(word, "yes") == 0 || strcmp(word, "y") == 0;

        *ret = (struct approval_answer){.scope = is_yes ? SCOPE_ONCE
                                                 : strcmp(word, "n") == 0
                                                         ? SCOPE_NO
                                                         : question_scope_find(word, strlen(word))};
        if (ret->scope != SCOPES)
                return 0;
        if (!read_rows(word, rows, &ret->last_row))
                return error_set(err, EINVAL, "the answer is " APPROVAL_GRAMMAR);
        ret->scope = SCOPE_ONCE;
        ret->rows = rows;
        return 0;
}
