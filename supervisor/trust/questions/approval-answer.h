/* The answer of a person to a question about calls. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "supervisor/trust/questions/question-text.h"

enum { APPROVAL_CALLS_MAX = 1000 }; /* of one question; more wait for the next */

struct approval_answer {
        enum question_scope scope;
        const uint8_t *
                rows; /* a byte for each call of the question: whether it is sent; NULL: scope decides about all */
        size_t last_row;  /* that rows names, from 1 */
        const char *note; /* for the code, or NULL */
};

#define APPROVAL_GRAMMAR "once, cell, session, always, no, or rows such as 1-12,15"

/* Reads a word that a person has typed. rows: APPROVAL_CALLS_MAX bytes, to which *ret may refer. Returns 0, or -EINVAL with an error. */
int approval_answer_read(const char *word, uint8_t *rows, struct approval_answer *ret,
                         struct error *err);
