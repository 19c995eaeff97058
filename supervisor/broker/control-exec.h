/* Code of the server's owner in a session, and questions to it: sessions/exec and sessions/probe. */
#pragma once

#include "supervisor/broker/control.h"

int control_exec(struct control_client *client, struct control *control,
                 struct jsonrpc_message *request, struct error *err);
int control_probe(struct control_client *client, struct control *control,
                  struct jsonrpc_message *request, struct error *err);
