/*
 * The process beside `cloister serve` that does what the broker cannot: the broker's user namespace
 * hides the uids of other users, and it can open no file.
 *
 * The command line forks it before it becomes the monitor. It accepts the connections of unix sockets
 * and passes each to the broker with the uid of the peer, as SO_PEERCRED tells it; or it reads the file
 * of tokens again when it has changed. It reads no byte of a connection, and has no capabilities. It
 * ends with the monitor, and when the broker closes its end of the socket.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { SERVE_TOKENS_MAX = 64 * 1024 };

struct serve_helper {
        const int *listeners; /* unix sockets, owned: the caller has them no more */
        size_t n_listeners;
        const char *tokens; /* the path of a file, or NULL */
};

/* Returns the broker's end of the socket (rpc/serve-messages.h). */
int serve_helper_start(const struct serve_helper *work, struct error *err);

/* Opens the file of tokens: a regular file of ours, or of root, that no other user can read. Returns the
 * descriptor. */
int serve_tokens_open(const char *path, struct error *err);
