/* Code of the server's owner in a session, and questions to it: sessions/exec and sessions/probe. */
#pragma once

#include "supervisor/broker/control.h"

int control_exec(struct control_client *client, struct control *control,
                 struct jsonrpc_message *request, struct error *err);
int control_probe(struct control_client *client, struct control *control,
                  struct jsonrpc_message *request, struct error *err);

/* Exit statuses of `cloister run` and `cloister exec`. */
enum {
        EXIT_TIMEOUT = 124,   /* as timeout(1) */
        EXIT_CANCELLED = 130, /* 128 + SIGINT */
};

/* no_sandbox: this machine refuses a step of making one. */
int exit_code_of(const struct cell_outcome *outcome, bool no_sandbox);
