/* `cloister journal show`: records as lines for people or as they are. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct show {
        const char *session,
                *tool, /* only these, or NULL; session: SESSION or PRINCIPAL:SESSION; tool: SERVER.TOOL */
                *kind;
        char since[40]; /* the first time, or "" */
        bool in_doubt, json;
};

/* text: "90s", "30m", "2h", "7d", or the beginning of a time such as "2026-01-31T12". Returns 0 or -EINVAL. */
int show_since(const char *text, struct show *ret);
int journal_show(int directory, const struct show *how, struct error *err);
