/*
 * The rules that are proposed by records of the journal, which cloister-journal reads, and which of them the owner has decided: a file of
 * the state directory (proposals.json, mode 0600).
 *
 * A compromised server can write any record. A proposal is therefore only a tool and arguments: the rule is made here, and
 * can allow nothing but this one call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

enum { PROPOSALS_MAX = 1000, PROPOSAL_ID_SIZE = 20 };

/* Texts are those of the document. */
struct proposal {
        yyjson_doc *doc;
        char id[PROPOSAL_ID_SIZE]; /* of the question, and the row: "7f3a2b1c-1" */
        const char *time, *principal, *session, *profile, *rule, *server, *tool;
        yyjson_val *arguments; /* an object */
        uint64_t key;          /* of the rule that asked */
        bool is_decided;
};

struct proposals {
        struct proposal list[PROPOSALS_MAX]; /* the oldest first */
        size_t n;
        size_t n_left_out;
};

/* Returns NULL with an error, or without one if cloister-journal has printed it. The caller frees it. */
struct proposals *proposals_read(struct error *err);
struct proposals *proposals_free(struct proposals *proposals);

/* Appends {"allow": "SERVER.TOOL", "when": {"": {"equals": {…}}}, "why": …} in one line. */
int proposal_rule(const struct proposal *proposal, struct buffer *to);
/* Marks the proposal, and others of the same rule, as decided, and writes the file. */
int proposals_decide(struct proposals *proposals, const struct proposal *proposal,
                     struct error *err);
