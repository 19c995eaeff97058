/*
 * Answers of a person that cover later calls of a session: by rule, tool and the digest of the tool's definition. A grant serves a rule
 * that asks, never one that denies. It ends with its cell or with the sandbox; a branch begins without any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        GRANTS_MAX = 256,      /* of a session; a new one replaces the oldest */
        GRANTS_REFUSALS = 64,  /* rules of a cell whose refusals are counted */
        GRANTS_REFUSED_AT = 3, /* further calls of the rule are denied without a question */
        GRANT_NAME_MAX = 260,
};

struct grant_key {
        char rule[GRANT_NAME_MAX];
        char tool[GRANT_NAME_MAX]; /* SERVER.TOOL */
        uint64_t definition;
};

struct grants {
        struct grant {
                struct grant_key key;
                uint64_t cell; /* 0: until the sandbox ends */
        } * list;              /* allocated with the first */
        size_t n;
        struct grant_refusal {
                char rule[GRANT_NAME_MAX];
                unsigned n;
        } * refusals; /* of the cell */
        size_t n_refusals;
        uint64_t cell; /* of the refusals */
};

/* Names that are too long are compared by their digests. */
void grant_key_set(struct grant_key *key, const char *rule, const char *server, const char *tool,
                   uint64_t definition);

/* cell 0: until the sandbox ends. Without memory there is no grant, and the next call asks again. */
void grants_add(struct grants *grants, const struct grant_key *key, uint64_t cell);
bool grants_have(const struct grants *grants, const struct grant_key *key, uint64_t cell);

/* A person said no to the rule. */
void grants_refuse(struct grants *grants, const char *rule, uint64_t cell);
bool grants_are_refused(const struct grants *grants, const char *rule, uint64_t cell);

/* The cell ends: its grants and refusals do. */
void grants_end_cell(struct grants *grants, uint64_t cell);
void grants_done(struct grants *grants);
