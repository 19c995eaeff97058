/*
 * The requestState that a modern client sends back: the name of a state that the server keeps.
 *
 * A name is unguessable, belongs to one principal, and is valid for one method, one name (or URI) and
 * the same arguments, for REQUEST_STATE_MS: a client can neither change what is in it nor use it for
 * another call. It may be used again, because a client may not have got the answer. The oldest states
 * of a principal make room for new ones.
 */
#pragma once

#include <sys/queue.h>

#include "base/buffer.h"

enum {
        REQUEST_STATES_MAX = 64,                    /* of a principal */
        REQUEST_STATES_BYTES_MAX = 4 * 1024 * 1024, /* of them together */
        REQUEST_STATE_MS = 1800000,
        ANSWERS_MAX = 64,                    /* of one call */
        ANSWERS_BYTES_MAX = 512 * 1024,      /* as JSON */
        REQUEST_ARGUMENTS_MAX = 1024 * 1024, /* bytes of the arguments of a call that asks */
        QUESTIONS_BYTES_MAX = 1536 * 1024,   /* of its questions, as they are kept */
};

struct request_state;

struct request_states {
        TAILQ_HEAD(request_state_list, request_state) list; /* the oldest first */
        size_t n, bytes;
};

/* A call that may wait for answers. The name is text, the others are JSON. */
struct request_call {
        const char *method;            /* a literal */
        struct buffer name, arguments; /* arguments: an object; empty: none */
        struct buffer answers;         /* members of an object, without braces */
        struct buffer questions;       /* of the last round: an object, what an answer has to fit */
        unsigned rounds;               /* runs of the code before this one */
};
void request_call_done(struct request_call *call);

/* Keeps a state; appends its name as a JSON string. Returns 0, -EMSGSIZE (too large to be kept) or
 * -ENOMEM. */
int request_state_keep(struct request_states *states, const struct request_call *call,
                       struct buffer *to);

/*
 * Finds the state of a call by its name: appends its answers and its questions to those of the call, and sets the rounds.
 * Returns 0; -ENOENT: there is none, it has expired, or it is another call's; -ENOMEM, -EMSGSIZE.
 */
int request_state_find(struct request_states *states, struct request_call *call, const char *name,
                       size_t n);

void request_states_done(struct request_states *states);
