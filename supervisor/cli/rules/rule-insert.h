/* The text of a config file with one more rule. Comments and layout of the file stay. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "supervisor/cli/config/entry-text.h"

/*
 * Appends the whole new text: `rule` (JSON in one line) stands in front of the rule with this index, in the rules of the
 * profile, or of the top level (profile NULL). Returns 0, -ENOENT: the file has no such rule, -EBADMSG, -EMSGSIZE or -ENOMEM.
 */
int rule_insert(const struct entry_text *file, const char *profile, size_t index, const char *rule,
                struct buffer *to, struct error *err);
