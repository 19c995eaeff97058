/*
 * The head of a response, from its lines as libcurl passes them: those of the response, of redirects and
 * interim responses (1xx) before it, and of the trailer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        EXCHANGE_HEADERS_MAX = 128 * 1024, /* bytes of all, those of 1xx and redirects included */
        EXCHANGE_CONTENT_TYPE_MAX = 127,
        EXCHANGE_SESSION_MAX = 1024,
        EXCHANGE_CHALLENGE_MAX = 8 * 1024,
};

struct exchange_head {
        int status;                                       /* 0: none yet */
        char content_type[EXCHANGE_CONTENT_TYPE_MAX + 1]; /* lower case, without parameters */
        char session[EXCHANGE_SESSION_MAX + 1];           /* Mcp-Session-Id; "": none */
        bool session_is_bad;                              /* too long, or not visible ASCII */
        char challenge[EXCHANGE_CHALLENGE_MAX + 1]; /* WWW-Authenticate, several joined by ", " */
        bool is_redirect; /* the status is one of a redirect, and there is a Location */
        bool is_whole;
        size_t bytes; /* of all lines */
};

/* Takes a line with its end. Returns 1 if the head is whole, 0, or -EMSGSIZE: more than
 * EXCHANGE_HEADERS_MAX bytes have come. */
int exchange_head_line(struct exchange_head *head, const char *line, size_t n);
