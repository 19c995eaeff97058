/*
 * The text of a question, as a client's form shows it, and the answer to that form. No function here has side effects.
 *
 * Text of code stands in the lines of calls only, after a fixed prefix, as the JSON that will be sent: characters that control a
 * terminal, change the direction of text or are invisible are \uXXXX there. The first line has what a person needs who sees no
 * other one: Claude Code shows three lines of a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/json.h"
#include "rpc/client-request.h"

enum {
        QUESTION_ID_LENGTH = 8,
        QUESTION_SHA_SIZE = 65,   /* hexadecimal digits and a NUL */
        QUESTION_NOTE_MAX = 400,  /* bytes of a person's words to the code */
        QUESTION_LINE = 90,       /* characters, of which a client shows three lines */
        QUESTION_LINE_MAX = 1200, /* bytes of a call in the message */
        QUESTION_TITLE_SIZE = 64,
};

/* Of a call that asks because its plan lacks it. */
#define QUESTION_NO_RULE "none"
/* Of a row of a plan that the rules allow. */
#define QUESTION_ALLOWED "none (it is allowed)"

/* One call, as it will be sent; borrowed. */
struct question_call {
        uint64_t number; /* of the CALL frame: unique in the session */
        uint32_t unsure; /* of a plan: as in plans/plan.h */
        const char *server, *tool;
        const char *json; /* the arguments */
        size_t n;
        uint64_t definition; /* digest of the tool's definition */
        const char *rule;    /* "config.json line 14" */
        const char *why;     /* of the rule, or NULL */
        uint64_t rule_key; /* of the rule, if `always` may propose one for this call; otherwise 0 */
};

struct question_view {
        const char *id;
        const char *session;
        const char *principal; /* "": there is one principal */
        const char *sha256;
        const struct question_call *const *calls;
        size_t n_calls;
        bool is_plan;        /* the calls are those of a plan */
        bool lacks_terminal; /* `cloister approve` cannot answer it: it is not named */
};

/* Digest of what will be sent, and by which tools. Returns 0 or -ENOMEM. */
int question_digest(const struct question_call *const *calls, size_t n,
                    char ret[QUESTION_SHA_SIZE]);
/* Appends the message, at most CLIENT_MESSAGE_MAX bytes. *n_shown: of how many calls, from the first one, it has a line. Returns 0 or
 * negative errno. */
int question_message(const struct question_view *view, struct buffer *to, size_t *n_shown);
/*
 * Appends all of the question, for a terminal of `columns` columns. Each line with text of code begins with "   | ", also where a line
 * was too long: otherwise code could write a line that looks like one of Cloister's. Returns 0 or negative errno.
 */
int question_whole(const struct question_view *view, size_t columns, struct buffer *to);
/* Whether the first three lines of the message show all calls whole. */
bool question_is_short(const struct question_view *view);
/* "Send these 40 calls?" */
void question_title(const struct question_view *view, char ret[QUESTION_TITLE_SIZE]);
/* Fills in the form. Returns 0 or negative errno; call client_request_done() in any case. again: the answer before did not
 * fit. *n_shown: as for question_message(). */
int question_form(const struct question_view *view, bool again, struct client_request *ret,
                  size_t *n_shown);

/* Fills in a request to open the page of the question at this address; its elicitationId is the question's id. Returns 0 or
 * negative errno; call client_request_done() in any case. */
int question_address(const struct question_view *view, const char *address,
                     struct client_request *ret);

/* For how long an answer holds. */
enum question_scope {
        SCOPE_ONCE,
        SCOPE_CELL,    /* also further calls of this rule and tool, until the cell ends */
        SCOPE_SESSION, /* until the sandbox ends */
        SCOPE_ALWAYS,  /* as SCOPE_SESSION, and a rule is proposed (supervisor/trust/proposal.h) */
        SCOPE_NO,
        SCOPES,
};
const char *question_scope_name(enum question_scope scope);
/* Returns SCOPES if there is no such scope. */
enum question_scope question_scope_find(const char *name, size_t n);

enum question_form_answer { FORM_YES, FORM_NO, FORM_MISFIT };
/* Reads the result of an elicitation. declined: the client's action was decline or cancel, for which no form need be shown. */
enum question_form_answer question_form_read(yyjson_val *result, enum question_scope *scope,
                                             bool *declined);
