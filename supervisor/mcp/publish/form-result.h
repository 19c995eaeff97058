/*
 * The outcome of a call as the form of its tool says (policy/result-form.h).
 *
 * The text of the code is a value in the form and is written by json_out: it cannot become a part of it. The case is
 * chosen by the end of the cell, as the broker has it.
 */
#pragma once

#include "base/buffer.h"
#include "policy/config/config.h"
#include "policy/image.h"
#include "policy/result-form.h"
#include "supervisor/session/cell/cell.h"

enum {
        FORM_TEXT_MAX = 9 * 1024 * 1024, /* bytes of the text of a result */
        FORM_STRING_MAX = 12 * 1024 *
                          1024, /* of it as a JSON string: a control character is six bytes there */
};

/* The parts of a form besides the outcome. Borrowed texts outlive the rendering. */
struct form_facts {
        const char *form; /* JSON, checked; NULL: the usual form */
        bool is_script;
        char session[SESSION_NAME_MAX + 1];
        char server[CELL_NAME_MAX + 1]; /* that the call names and that does not exist; "": none */
        uint32_t timeout_ms;
        size_t most;    /* characters of a text that has no limit */
        unsigned kinds; /* CONTENT_… that the client supports */
};

/* Appends {"content": […], "isError": …}. A text that is too large becomes an error for the model. Returns 0, -EMSGSIZE or
 * -ENOMEM. */
int form_render(const struct cell_outcome *outcome, const struct form_facts *facts,
                struct buffer *to);
