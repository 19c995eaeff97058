/*
 * The MCP server over HTTP: listening sockets, connections and what they may cost.
 *
 * Streamable HTTP is at /mcp, for clients of both eras; 2024-11-05's transport at /sse; /healthz
 * answers 200. No socket is made here: the listening ones are passed.
 */
#pragma once

#include <event2/event.h>

#include "base/error.h"
#include "supervisor/http/access.h"
#include "supervisor/http/limits.h"

struct http_server;
struct mcp_server;

struct http_options {
        int fds[HTTP_LISTENERS_MAX]; /* listening, not blocking; the server takes ownership */
        size_t n_fds;
        const char *const *hosts, *const *origins; /* borrowed */
        size_t n_hosts, n_origins;
        const char *profile; /* borrowed; or NULL */
        bool passed;         /* the sockets were passed by systemd, which keeps them */
        const char *tokens;  /* text of a file, or NULL */
        size_t tokens_length;
        int admin_fd;    /* listens for --admin (admin.h); owned; -1: none */
        bool admin_view; /* without tokens: whether it serves the live view */
        /* Sets the gauges of the metrics that are not the server's own; or NULL. */
        void (*collect)(void *data);
        int helper;                 /* rpc/serve-messages.h; owned; -1: none */
        void (*failed)(void *data); /* the helper has ended */
        void *data;
};

/* mcp: borrowed; freed after this server. */
int http_server_new(struct http_server **ret, struct event_base *base, struct mcp_server *mcp,
                    const struct http_options *options, struct error *err);
struct http_server *http_server_free(struct http_server *server);
/* The config was reloaded: ends sessions under profiles that their principals may not use any more. */
void http_server_restrict(struct http_server *server);

/* The server drains: no connection is accepted on sockets that systemd has passed, so that the next instance gets them. */
void http_server_stop(struct http_server *server);
/* No call is left: ends the streams of sessions. */
void http_server_close(struct http_server *server);
/* Whether a response has not been written whole. */
bool http_server_has_answers(const struct http_server *server);

/* Has the helper read the file of tokens, and checks it. answered() is called once, maybe at once; error: NULL: it may be used. */
void http_server_check_tokens(struct http_server *server,
                              void (*answered)(void *data, const struct error *error), void *data);
/* Uses the tokens that were checked, or drops them. */
void http_server_take_tokens(struct http_server *server, bool use);
