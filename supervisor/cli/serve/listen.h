/* The listening sockets of `cloister serve`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LISTEN_MAX = 4, LISTEN_TEXT_SIZE = 160 };

struct listener {
        int fd;       /* owned; not blocking */
        bool is_unix; /* the kernel tells who connects */
        bool guarded; /* only this machine reaches it (TCP), or it is a unix socket */
        char text[LISTEN_TEXT_SIZE]; /* where it listens: "http://127.0.0.1:8808/mcp" */
};

#define LISTEN_DEFAULT "127.0.0.1:8808"

/* spec: "HOST:PORT", with port 0 for any, or "unix:PATH". A socket file has mode 0600; one without
 * a listener is replaced. Returns 0 or negative errno. */
int listen_open(const char *spec, struct listener *ret, struct error *err);

/* Takes the sockets that systemd passes (sd_listen_fds(3)). Returns how many, 0 for none. */
int listen_inherit(struct listener ret[LISTEN_MAX], struct error *err);
