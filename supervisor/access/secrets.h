/*
 * The values of a profile's secrets (docs/secrets.md).
 *
 * The monitor starts cloister-access for them, as it starts a stdio server, with the variable CLOISTER_SECRETS:
 *
 *     [{"name", "variable"?: NAME, "file"?: PATH, "command"?: [PROGRAM…], "problem"?: TEXT}]
 *
 * Each has one of the four. A value that is a variable's or a credential's is in its own variable; "problem" says why there is none.
 * Standard output has one line: {"NAME": VALUE, …} of all secrets. If one has no value, nothing is written: the last line of standard
 * error names it, and the exit status is 1.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"

#define SECRETS_VARIABLE "CLOISTER_SECRETS"

enum {
        SECRET_VALUE_MAX = 64 * 1024,
        SECRET_VALUE_MIN = 6, /* a shorter one would be replaced in ordinary text */
        SECRET_COMMAND_MS = 10000,
        SECRETS_LINE_MAX = 8 * 1024 * 1024, /* 16 values, of which JSON may escape each byte */
};

/* Why a value of n bytes cannot be a secret's, a predicate; NULL: it can. */
const char *secret_value_wrong(const char *value, size_t n);

/* Appends the line. Removes the variables from the environment. */
int secrets_read(struct buffer *to, struct error *err);
