/* Files of a session: files/list, files/get and files/put. */
#pragma once

#include "supervisor/broker/control.h"

int control_list_files(struct control_client *client, struct control *control,
                       struct jsonrpc_message *request, struct error *err);
int control_get_file(struct control_client *client, struct control *control,
                     struct jsonrpc_message *request, struct error *err);
int control_put_file(struct control_client *client, struct control *control,
                     struct jsonrpc_message *request, struct error *err);
