/*
 * The labels that a session has: those of all results that its code was given, until its sandbox ends.
 *
 * They only grow: rollback and restore keep them, because code may have kept what it has read elsewhere. A branch begins with those of
 * its session. For each label the first calls that gave it are kept, so that a question can name them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { LABELS_CALLS_MAX = 3 /* kept for each label */ };

struct label_origins;

/* Zeroed: none. */
struct session_labels {
        unsigned seen;                 /* RULES_PRIVATE… (policy/rules/rule.h) */
        struct label_origins *origins; /* NULL: none are known */
};

void session_labels_done(struct session_labels *labels);

/* A result was given. name: "server.tool", or what else it came from. cell, call: 0: none. */
void session_labels_add(struct session_labels *labels, unsigned bits, const char *name,
                        uint64_t cell, uint64_t call);
void session_labels_merge(struct session_labels *to, const struct session_labels *from);

/* "private: files.read (cell 2, call 3) and 4 more; untrusted: web.fetch (cell 3, call 1)": of these bits. */
void session_labels_describe(const struct session_labels *labels, unsigned bits, char *to,
                             size_t size);
