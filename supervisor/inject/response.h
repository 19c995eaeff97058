/*
 * Reads one HTTP/1.1 response from a server by llhttp, and writes it for the client of a session: the head without the headers that are
 * between two peers, the body in chunks of its own, all of it with placeholders instead of values.
 *
 * Interim responses (1xx) are dropped. Refused: a protocol switch, a content coding, a head above RESPONSE_HEAD_MAX, and what llhttp
 * refuses. Trailers and chunk extensions are dropped.
 */
#pragma once

#include <llhttp.h>
#include <stdbool.h>

#include "supervisor/inject/mask.h"

enum { RESPONSE_HEAD_MAX = 64 * 1024, RESPONSE_HEADERS_MAX = 200 };

struct response {
        llhttp_t parser;
        struct mask_stream *mask;
        struct buffer *to; /* borrowed: what the client gets */
        bool is_head;      /* of the request: the response has no body */
        bool is_old;       /* the client has HTTP/1.0: no chunks */
        bool began;        /* a byte was read */
        bool has_head;     /* the head was written to `to` */
        bool is_done;
        bool keeps_alive; /* both peers; known from has_head on */
        bool has_body, is_chunked;
        unsigned status; /* known from has_head on */
        uint64_t bytes;  /* that were read */
        const char *why; /* it was refused */

        /* Private. */
        struct buffer head, body; /* body: of the next chunk */
        unsigned n_headers;
        size_t line; /* offset in head of the header that is being read */
        bool is_dropped, is_interim;
        size_t name_end;
};

/* mask: owned from now on. */
void response_init(struct response *response, struct mask_stream *mask, struct buffer *to,
                   bool is_head, bool is_old);
void response_done(struct response *response);

/* Returns 0, or -EBADMSG: why; -ENOMEM. Bytes behind the response are refused. The body is kept until response_flush(). */
int response_feed(struct response *response, const char *data, size_t n);
/* Writes what was read of the body as one chunk. */
int response_flush(struct response *response);
/* The server has ended the connection in order. -EBADMSG: the response is not complete. */
int response_end(struct response *response);
