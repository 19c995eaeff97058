/* The loop of cloister-inject. */
#pragma once

#include "base/error.h"
#include "supervisor/inject/authority.h"

struct inject_server;

/* Makes all that needs files or more rights than the filter gives. Returns 0 or negative errno. */
int inject_server_new(struct inject_server **ret, int broker,
                      const struct inject_settings *settings, int certificates, struct error *err);
/* Until the broker has closed its end. */
int inject_server_run(struct inject_server *server, struct error *err);
