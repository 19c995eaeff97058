/* One rule of a config: what it is for, and what it says. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/error.h"
#include "policy/rules/condition.h"
#include "policy/rules/pointer.h"

enum {
        RULE_SELECTORS_MAX = 64,
        RULE_WHEN_MAX = 32,
        RULE_WHY_MAX = 200,           /* bytes */
        RULE_PLANNED_MAX = 16 * 1024, /* bytes of JSON */
        RULE_VARY_MAX = 16,
};

enum rules_effect { RULES_ALLOW, RULES_ASK, RULES_DENY, RULES_EFFECTS };
extern const char *const rules_effect_names[]; /* "allow", … NULL */

/* Bits of the labels that results have given to a session (docs/rules.md). */
enum { RULES_PRIVATE = 1, RULES_UNTRUSTED = 2 };

enum rules_sends { RULES_SENDS_ANY, RULES_SENDS_OPEN, RULES_SENDS_CLOSED };

/* The span in which an "after" counts. */
enum rules_span { RULES_CELL, RULES_SESSION, RULES_HOUR, RULES_SPANS };
extern const char *const rules_span_names[];

/* The annotations of a tool, with the defaults of the specification. */
enum rules_hint { HINT_READ_ONLY, HINT_DESTRUCTIVE, HINT_IDEMPOTENT, HINT_OPEN_WORLD, RULES_HINTS };
extern const char *const rules_hint_names[];

struct rule {
        char *file; /* as the config's messages name it */
        size_t line;
        size_t number; /* of its "rules", from 1 */
        bool is_own;   /* of a profile, not of the top level */
        enum rules_effect effect;
        char **selectors; /* NULL-terminated */
        struct rule_when {
                struct pointer pointer;
                struct condition *condition;
        } * when;
        size_t n_when;
        int8_t hints[RULES_HINTS]; /* 1: true, 0: false, -1: any */
        bool has_hints;
        unsigned seen; /* labels, all of which must have been given */
        enum rules_sends sends;
        uint32_t after[RULES_SPANS]; /* 0: none */
        bool has_after;
        bool plan_run;        /* "plan": "run" */
        char *planned;        /* JSON, or NULL */
        struct pointer *vary; /* what a plan's comparison leaves out */
        size_t n_vary;
        char *why;        /* or NULL */
        char *conditions; /* JSON of when, hints, seen, sends and after; "" without one */
        uint64_t key;     /* hash of the rule's text, for counts that outlive a reload */
};

/* The error is a clause, such as `unknown key "wen"; did you mean "when"?`. *at: the value that it is about, in object.
 * Returns 0, -EINVAL or -ENOMEM. */
int rule_parse(yyjson_val *object, struct rule *ret, yyjson_val **at, struct error *err);
void rule_done(struct rule *rule);
