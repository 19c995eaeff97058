/*
 * The steps of a call between the code and the server.
 *
 * Theory of operation. The broker decides on each CALL frame; checks of the guest count for nothing. The steps are a table
 * in this order: form → (the lists "tools", in the hub) → rules → (a plan; a grant or a question) → counts → (arguments with secrets; the
 * journal) → send. A step finishes at once, or later by trust_continue() and trust_refuse(). The bytes that are sent are written from the document that
 * was checked. A call that no key of the profile is about has no steps.
 *
 * A call that waits has its own document: the frame that brought it was freed. It can be dropped at any time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/rules/rules.h"
#include "supervisor/session/channel/frame-body.h"
#include "supervisor/session/machine/machine.h"
#include "supervisor/session/machine/tool-provider.h"

enum trust_result {
        TRUST_GO_ON,   /* the next step; after the last: the call is sent */
        TRUST_REFUSED, /* trust_set_refusal() has been called */
        TRUST_WAITS,
        TRUST_ANSWERED, /* it is not sent: the code gets trust->answer. Never after TRUST_WAITS */
};

/* Why a call is not sent, as the code gets it. */
struct trust_refusal {
        const char *kind; /* name of the exception in the sandbox (docs/rpc.md) */
        struct error message;
        const char *rule, *why; /* of the call; NULL: no rule decided */
        char reason[300];       /* the message without the names of tool and rule */
};

struct trust_call {
        struct session *session;
        struct tool_call *call;      /* the owner's */
        uint64_t cell;               /* number of the cell that made it, 0: background work */
        uint64_t number;             /* of the frame */
        struct tool_request request; /* what will be sent; its texts are in the document */
        yyjson_doc *document;        /* owned */
        struct shared_text *text; /* owned: large arguments, written from the document; or NULL */
        enum rules_effect effect; /* what the rules say … */
        uint64_t
                rule_key; /* … and the rule: 0: none. A reload may free it, so there is no pointer */
        bool is_proposable;       /* its decision depends on this call alone */
        char rule[256], why[256]; /* "config.json line 14", its "why"; or "" */
        uint64_t *counted;        /* keys of the rules that count the call if it may be sent */
        size_t n_counted;
        struct trust_refusal refusal;
        uint64_t record;      /* number of its record in the journal; 0: none */
        struct buffer answer; /* TRUST_ANSWERED: a CallToolResult */
        bool is_blank;        /* it was made from the schema of the tool */
        size_t plan_row;      /* of its cell's plan, from 1, that its result is for; 0: none */
        bool is_planned;      /* a person has said yes to the plan that has it */
        bool is_outside_plan; /* it asks although the rules allow it */
        bool is_refused;      /* the step `refused` has begun */
        size_t step;
        bool waits;
        void *data;                             /* of the step that waits */
        void (*drop)(struct trust_call *trust); /* of the step that waits: the call is over */
};

typedef enum trust_result trust_step(struct trust_call *trust);

/* The functions of the owner, for calls that have waited. Each frees no part of the call: trust_free() follows. */
struct trust_owner {
        void (*send)(struct tool_call *call, struct trust_call *trust);
        void (*refuse)(struct tool_call *call, struct trust_call *trust);
        trust_step *const *steps; /* ended by NULL (steps.h) */
        trust_step *refused;      /* runs once before refuse(); it may wait, and changes nothing */
};

/*
 * The labels that the result of a call brings into the session: *bits (RULES_PRIVATE…), and the name of the tool, owned by the caller, for
 * session_labels_add(). NULL: no rule of the profile has "seen", or there is no label. *bits is all of them without such a rule, because a
 * later config may have one.
 */
char *trust_name_result(const struct session *session, const struct tool_request *request,
                        unsigned *bits);

/* Whether calls of this tool have steps. */
bool trust_applies(const struct session *session, const struct tool_request *request);

/*
 * Runs the steps. Takes the document out of the body; the request then points into it. TRUST_GO_ON: *ret has what to send;
 * TRUST_REFUSED: its refusal says why not; TRUST_WAITS: a function of the owner (static) follows, not from inside; TRUST_ANSWERED: *ret has the answer. NULL in *ret:
 * out of memory, and the call is refused.
 */
enum trust_result trust_begin(struct session *session, const struct tool_request *request,
                              uint64_t cell, uint64_t number, struct frame_body *body,
                              const struct trust_owner *owner, struct trust_call **ret);
/* A call that waits is dropped. NULL is allowed. Returns NULL. */
struct trust_call *trust_free(struct trust_call *trust);
/* The call would be sent: it counts in the copy of the session in which a plan is made. */
void trust_count_planned(struct trust_call *trust);
/* The tool that it calls, as the catalogue has it. */
struct tool_description trust_describe(const struct trust_call *trust);

/* ---- for steps ---- */

/* Equal names were refused before, in each call; this is about names that programs may take for equal. */
trust_step trust_check_form;
/* Sets effect, rule and why. May be called again, where the rules have changed. */
trust_step trust_apply_rules;
/* The call counts for the rules that count it from here on: the next step may wait, and other calls are decided meanwhile. */
trust_step trust_count;
/* A step that has waited is done. */
void trust_continue(struct trust_call *trust);
void trust_refuse(struct trust_call *trust);
/* Says why, "files.write_file was not sent: " before it, and the place of the rule if that decided. */
void trust_set_refusal(struct trust_call *trust, const char *kind, bool is_by_rule,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
