/*
 * Waits for the browser's return from the authorization server, on 127.0.0.1, or for its URL on
 * standard input. Every user and every web page of this machine can send requests here: what does not
 * carry the expected state is refused, and the wait continues.
 */
#pragma once

#include <stdint.h>

#include "rpc/http/request.h"
#include "supervisor/oauth/metadata.h"

enum {
        LISTENER_CONNECTIONS = 16,        /* the oldest is dropped for a new one */
        LISTENER_REQUEST_MAX = 24 * 1024, /* bytes of a pasted line */
        LISTENER_WAIT_MS = 10 * 60 * 1000,
};

struct oauth_listener {
        int fd;
        uint16_t port;
        char uri[64]; /* the redirect URI */
};

/* port 0: a free one. */
int oauth_listener_open(struct oauth_listener *listener, uint16_t port, struct error *err);
void oauth_listener_close(struct oauth_listener *listener);

/* input: where a URL may be pasted, or -1. must_paste: its end ends the wait. */
int oauth_listener_wait(struct oauth_listener *listener, int input, bool must_paste,
                        const char *state, struct oauth_redirect *ret, struct error *err);

/* A reader of requests whose URL may be as long as a head. */
void oauth_listener_expect(struct http_reader *reader);
/* The query of a request ("GET /callback?… HTTP/1.1") once its head is complete, or NULL. */
const char *oauth_request_query(const struct http_reader *reader);
/* The query of a URL. */
const char *oauth_pasted_query(const char *text, size_t n, size_t *length);
