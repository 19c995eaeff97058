/*
 * Requests of an MCP server to its client during a call: input of a person (elicitation), the answer of
 * a model (sampling), the directories that the server may use (roots).
 *
 * Cloister is in between: a server of the user's asks, and our own client answers. Both are untrusted.
 * What a server asks is checked and written anew from the members that the specification knows, and so
 * is what the client answers. No function here has side effects.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

struct json_out;

/* The capabilities that a client declares, as bits. */
enum client_can {
        CLIENT_CAN_FORM = 1, /* elicitation of data */
        CLIENT_CAN_URL = 2,  /* elicitation that shows an address */
        CLIENT_CAN_ROOTS = 4,
        CLIENT_CAN_SAMPLE = 8,
        CLIENT_CAN_SAMPLE_TOOLS = 16, /* sampling whose model may call tools of the server */
        CLIENT_TELLS_ROOTS = 32,      /* it notifies of changes of its roots; of no modern client */
};

enum {
        CLIENT_FORM_MAX = 64 * 1024, /* bytes of the params of an elicitation */
        CLIENT_SAMPLE_MAX = 1024 * 1024,
        CLIENT_ANSWER_MAX = 1024 * 1024,
        CLIENT_MESSAGE_MAX = 8 * 1024, /* bytes that a person is shown as the question */
        CLIENT_FIELDS_MAX = 64,        /* of a form */
        CLIENT_CHOICES_MAX = 1000,     /* of a field */
        CLIENT_MESSAGES_MAX = 1000,    /* of a sampling request */
        CLIENT_ROOTS_MAX = 256,
        CLIENT_URL_MAX = 2048,
        CLIENT_ASK_ID_MAX = 64 * 1024, /* bytes of the id of a server's request */
        /* Bytes of the id of a page, as our client receives it. */
        CLIENT_PAGE_MAX = CLIENT_URL_MAX + 256,
};

enum client_request_kind { CLIENT_FORM, CLIENT_URL, CLIENT_ROOTS, CLIENT_SAMPLE };

struct client_request {
        enum client_request_kind kind;
        unsigned needs;       /* bits of client_can; all of them */
        struct buffer params; /* one object in one line, for our client */
        yyjson_doc *doc;      /* params, parsed; NULL without members */
};

/* The capabilities of a client, an object or NULL. */
unsigned client_can_read(yyjson_val *capabilities);
/* Writes them as members of a capabilities object. */
void client_can_put(struct json_out *out, unsigned can);

/*
 * Checks and takes a request. server: the name of the server that asks, which a person is shown before
 * its question. Returns 0; -EOPNOTSUPP: there is no such method; -EINVAL, -EMSGSIZE: the request is not
 * as the specification says, or too large; -ENOMEM. Call client_request_done() in any case.
 */
int client_request_read(struct client_request *ret, const char *server, const char *method,
                        size_t method_length, yyjson_val *params, struct error *err);
/*
 * Makes a request, to which an answer is to be taken, from what it was kept as: its method, and the params of
 * an elicitation, as they were written. Without params for our client. Returns 0, -EINVAL or -ENOMEM; call
 * client_request_done() in any case.
 */
int client_request_restore(struct client_request *ret, const char *method, size_t method_length,
                           yyjson_val *params, struct error *err);
void client_request_done(struct client_request *request);
const char *client_request_method(const struct client_request *request);
/* Writes the request as a clause: "asks for input", "asks to open https://…". The address was checked. */
void client_request_describe(const struct client_request *request, char *to, size_t size);
/* The address of CLIENT_URL, otherwise NULL. */
const char *client_request_url(const struct client_request *request);
/* The elicitationId of CLIENT_URL, as our client gets it, or NULL. */
const char *client_request_page(const struct client_request *request);
/* An elicitationId of a server's as our client gets it: ids of different servers may be the same. Returns 0 or
 * -EINVAL. */
int client_page_name(char to[CLIENT_PAGE_MAX + 1], const char *server, const char *id, size_t n);
/* The question of an elicitation, otherwise NULL. */
const char *client_request_message(const struct client_request *request);

/* Whether a person may be shown this address: https, or http of this machine; in ASCII, without a user
 * before the host. */
bool client_url_is_safe(const char *url, size_t n);

#define _cleanup_client_request_ _cleanup_(client_request_done)

/* Appends the client's result, as the server gets it. Returns 0; -EINVAL, -EMSGSIZE: it does not answer
 * the request; -ENOMEM. */
int client_answer_take(const struct client_request *request, yyjson_val *result, struct buffer *to,
                       struct error *err);

/* How a person can answer a question without the client. */
struct person_way {
        const char *id;   /* `cloister approve ID`; NULL: no terminal can answer */
        const char *page; /* the address of a page; NULL: there is none */
        /* The client was not shown the question, and its call may be answered after this time; 0: it was. */
        uint32_t wait_ms;
};

/*
 * One request to our client, from who asks (a server of the user's) to who can reach the client (the
 * MCP server), through layers that know neither.
 *
 * The asker owns the memory. Who takes an ask fills in `withdraw` and `taker`. It then ends either by
 * answered(), called once by the taker, or by withdraw(), called by the asker.
 */
struct client_ask {
        struct client_request request;
        const char *server;   /* the name of the server that asks, borrowed; NULL: code does */
        uint32_t patience_ms; /* how long the asker waits at most; 0: not known */

        /* result: what the client answered, not checked yet; NULL: why there is no answer. */
        void (*answered)(struct client_ask *ask, yyjson_val *result, const char *why);

        void (*withdraw)(struct client_ask *ask);
        void *taker;

        /* NULL: an answer that the client sends after the end is dropped. Otherwise `late` is called for it, once: a static function, which gets
         * a copy of the label. */
        void (*late)(const char *label);
        const char *label;
};
