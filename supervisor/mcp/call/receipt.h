/*
 * The receipt of a cell in structuredContent: what it has used and moved, by the kernel and the broker. Nothing in it is the
 * word of the code. It has a fixed number of members, and less than RECEIPT_MAX bytes.
 */
#pragma once

#include <stddef.h>

#include "base/json-out.h"
#include "supervisor/session/cell/cell.h"

enum { RECEIPT_MAX = 2048 };

#define RECEIPT_SCHEMA                                                                                   \
        "\"receipt\":{\"type\":\"object\",\"description\":\"by the kernel and Cloister, not by the "     \
        "code\",\"properties\":{"                                                                        \
        "\"cell\":{\"type\":\"integer\",\"description\":\"the whole is the resource "                    \
        "cloister://sessions/SESSION/cells/CELL/receipt\"},"                                             \
        "\"peak_of\":{\"type\":\"string\",\"enum\":[\"cell\",\"session\",\"process\",\"sampled\"],"      \
        "\"description\":\"what peak_memory_bytes is of\"},"                                             \
        "\"network\":{\"type\":\"string\",\"enum\":[\"none\",\"loopback\",\"allow\"]},"                  \
        "\"sent_bytes\":{\"type\":\"integer\",\"description\":\"of tool calls\"},"                       \
        "\"received_bytes\":{\"type\":\"integer\",\"description\":\"of their results\"},"                \
        "\"output_bytes\":{\"type\":\"integer\"},"                                                       \
        "\"kept_out_bytes\":{\"type\":\"integer\",\"description\":\"results and output that are not in " \
        "the text\"}}}"

/* Adds "receipt". cell: 0: it has no number; shown: bytes of the result's text. */
void receipt_put(struct json_out *out, const struct cell_outcome *outcome, uint64_t cell,
                 size_t shown);
