/*
 * An installation of packages that the code of a session has asked for (docs/packages.md): the QUERY
 * "install".
 *
 * The monitor starts the installer, a program on the host. It is sent what the worker has asked for,
 * and answers in lines of JSON: {"progress": text}, then {"set", "packages"} or {"error": text}. A
 * session has one installation at a time; the cell's time stands still meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

struct session;

enum { INSTALLS_MAX = 100 }; /* that one sandbox may ask for */

struct session_installs {
        struct install *now; /* or NULL */
        unsigned n;          /* that the sandbox has asked for */
};

/* Handler of the QUERY. A negative errno is a violation of the protocol. */
int install_begin(struct session *session, uint64_t number, yyjson_val *query, struct error *err);
/* The worker does not wait for the answer to this QUERY any more. */
void install_drop(struct session *session, uint64_t number);
/* Ends it without an answer. */
void install_drop_all(struct session *session);

/* The monitor's answers. _started() returns whether the session awaits it, and takes fds then. */
bool install_started(struct session *session, uint32_t serial, uint32_t instance, const int fds[3]);
bool install_failed(struct session *session, uint32_t serial, const struct error *error);
