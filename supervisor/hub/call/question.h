/*
 * The requests of a server to a client that are not answered yet. A question has a deadline. It ends when
 * the client answers, or the owner withdraws it: then the client gets a cancellation. The owner embeds
 * struct questions.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "rpc/client-request.h"

enum { QUESTION_MS = 5 * 60000 }; /* for a person to answer */

struct questions;

struct question {
        struct client_ask ask; /* first; the owner passes it on */
        TAILQ_ENTRY(question) link;
        struct questions *list;
        struct event deadline;
        yyjson_doc *id; /* of the server's request, or NULL */
        char *key;      /* its name in a result that asks for input, or NULL */
};

struct questions {
        struct event_base *base;
        TAILQ_HEAD(question_list, question) open;
        unsigned n;
        /* answer: as the client gave it; result: JSON, as the server gets it. Or both NULL, and why. Must call
         * question_end(), perhaps later. */
        void (*answered)(void *data, struct question *q, yyjson_val *answer, const char *result,
                         const char *why);
        void *data;
};

/* Takes the request, and in any case id and key. Returns NULL when out of memory; the request then stays
 * with the caller. */
struct question *questions_add(struct questions *list, struct client_request *request,
                               const char *server, yyjson_doc *id, char *key);
/* It could not be passed on: ends it and gives the request back. */
void question_refused(struct question *q, struct client_request *request);
void question_end(struct question *q);

/* Withdraws the question with this id, if it exists. Returns whether it did. */
bool questions_withdraw(struct questions *list, yyjson_val *id);
void questions_withdraw_all(struct questions *list);
