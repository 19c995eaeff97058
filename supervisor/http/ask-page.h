/*
 * Pages of questions, for people (docs/questions.md, "On a page").
 *
 * GET shows a field for a token, at every address below /ask/, whether or not there is a question. POST with the token of the question's
 * principal shows the question, with a value that only that page has; POST with this value and a button answers. No other
 * client learns anything about a question: a wrong token, the token of another principal, an address that is old or never was have one answer.
 *
 * Wrong tokens are counted for each question (APPROVAL_WRONG_MAX), and for each address of a client: above HTTP_ASK_WRONG_MAX within
 * HTTP_ASK_WRONG_MS it is refused, whatever it sends.
 */
#pragma once

#include <stdbool.h>

struct ask_page_tries;
struct http_connection;
struct http_server;
struct mcp_principal;

enum {
        HTTP_ASK_WRONG_MAX = 20,
        HTTP_ASK_WRONG_MS = 60 * 1000,
        HTTP_ASK_CLIENTS = 256, /* whose wrong tokens are counted */
        HTTP_ASK_TEXT_MAX =
                256 *
                1024, /* bytes of the calls of a question; a larger one can only be denied on a page */
};

/* Whether the request is for a page. */
bool http_is_ask(const struct http_connection *connection);
/* The head is complete, and its Host is ours. Returns whether the body is wanted, else it has responded. */
bool http_ask_check(struct http_connection *connection);
/* Who sends the complete request, by the token or the key of its form, so that its turn and its memory are counted for that principal.
 * NULL: no known principal. */
struct mcp_principal *http_ask_sender(struct http_connection *connection);
void http_on_ask(struct http_connection *connection);
/* The server ends. NULL is allowed. */
void http_ask_free(struct ask_page_tries *tries);
