/*
 * The calls that code has made in a copy of its session (docs/plans.md), and which of them may be made in the session.
 *
 * A plan is first filled, in the copy: each call is a row. If one asks, a question about all that were not sent goes to a person. Then the plan is
 * followed: the same call takes its row, once. No function here has side effects.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "policy/rules/pointer.h"
#include "rpc/memory-account.h"

enum {
        PLAN_ROWS_MAX = 1000,
        PLAN_BYTES_MAX = 16 * 1024 * 1024, /* arguments and results */
        PLAN_ASKED_BYTES_MAX =
                4 * 1024 *
                1024, /* arguments of calls that are not sent: one question has no more */
        PLAN_MS = 10 * 60 * 1000,  /* of the code in the copy */
        PLAN_DIFFERENCE_MAX = 120, /* bytes */
};

enum plan_kind {
        PLAN_ASKS,  /* a rule asks: it was not sent */
        PLAN_SENDS, /* it is allowed, and may change something: it was not sent */
        PLAN_READS, /* it is allowed and reads: it was sent, and its result is kept */
        PLAN_KINDS,
};

/* A call, as the step of rules has left it; borrowed. */
struct plan_call {
        enum plan_kind kind;
        uint64_t number; /* of its CALL */
        const char *server, *tool;
        const char *json; /* the arguments as they will be sent */
        size_t n;
        yyjson_val *arguments;      /* the same */
        const struct pointer *vary; /* what the comparison leaves out */
        size_t n_vary;
        uint64_t definition; /* digest of the rule and of the tool's definition */
        const char *rule, *why;
        uint32_t unsure; /* line at which the code has used a blank result before, or 0 */
};

struct plan_row {
        enum plan_kind kind;
        uint64_t number;
        uint32_t unsure;
        char *server, *tool, *json, *rule, *why;
        size_t n;
        uint64_t definition;
        char *compared; /* the arguments without what `vary` leaves out; not text */
        size_t n_compared;
        char *result; /* of PLAN_READS: the CallToolResult; NULL: it is not kept */
        size_t n_result;
        bool is_allowed; /* a person has said yes, or nothing in the plan asks */
        bool is_used;
};

struct plan;

struct plan *plan_new(void);
/* NULL is allowed. Returns NULL. */
struct plan *plan_free(struct plan *plan);
/* Its texts are charged to this account from now on. */
void plan_charge(struct plan *plan, struct memory_account *account);

/* Adds a row; *row: its index. Returns 0, -E2BIG or -ENOMEM: the plan is not whole then, and plan_fault() says why. */
int plan_add(struct plan *plan, const struct plan_call *call, size_t *row, struct error *err);
/* How many bytes of results it has room for. */
size_t plan_room(const struct plan *plan);
/* The result of a row that reads. Without room for it the read is made again. */
void plan_keep_result(struct plan *plan, size_t row, const char *text, size_t n);
/* Why it is not whole, or NULL. */
const char *plan_fault(const struct plan *plan);

size_t plan_count(const struct plan *plan);
size_t plan_count_kind(const struct plan *plan, enum plan_kind kind);
struct plan_row *plan_at(const struct plan *plan, size_t row);

enum plan_match {
        PLAN_OTHER,    /* the plan has no such call, or not any more */
        PLAN_ALLOWED,  /* it has the call: the row is used now */
        PLAN_REFUSED,  /* it has the call, and a person has said no to it */
        PLAN_ANSWERED, /* it has the result */
};
/* A call in the session. *row is set unless it is PLAN_OTHER. is_refused rows are not used up. */
enum plan_match plan_take(struct plan *plan, const struct plan_call *call,
                          const struct plan_row **row);
/* "the plan has no call of mail.send" or "/to is not as in row 3 of the plan", for a call that is PLAN_OTHER. Rows are numbered as in
 * the question. */
void plan_describe_difference(const struct plan *plan, const struct plan_call *call,
                              char to[PLAN_DIFFERENCE_MAX]);
/* A question about a call that is not in the plan goes to a person. */
void plan_note_other(struct plan *plan);

/* The object `plan` of a result. is_only: what would be called; otherwise what was made of it. Returns 0 or negative errno. */
int plan_put(const struct plan *plan, bool is_only, struct buffer *to);
/* One line for each call that was not made in the copy, of at most `most` bytes in all. Returns 0 or negative errno. */
int plan_list(const struct plan *plan, size_t most, struct buffer *to);
